package nodeconfig

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// A Setting is a key in a file and its effect.
type Setting struct {
	Key    string // as in Config.Sources
	Value  string // value in effect; empty if By is set
	By     string // overriding key, with its place; empty if this key is in effect
	Source Source
}

// Settings returns the keys in the files, in the order of files and lines.
func (c Config) Settings() []Setting {
	var all []Setting
	for _, e := range c.effects() {
		winner := ""
		for _, key := range e.keys {
			source, ok := c.sourceFor(e, key)
			switch {
			case !ok:
			case winner == "":
				winner = fmt.Sprintf("%s %s:%d", key, source.File, source.Line)
				all = append(all, Setting{Key: key, Value: e.value, Source: source})
			default:
				all = append(all, Setting{Key: key, By: winner, Source: source})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b Setting) int {
		return cmp.Or(cmp.Compare(slices.Index(c.Files, a.Source.File), slices.Index(c.Files, b.Source.File)), cmp.Compare(a.Source.Line, b.Source.Line), cmp.Compare(a.Key, b.Key))
	})
	return all
}

// effect is a value and the keys that set it, strongest first: see Config.
type effect struct {
	value string
	keys  []string
	of    owner
}

// owner is the file whose keys set a value, if two files have keys of the same name with different
// meanings.
type owner int

const (
	anybody owner = iota
	theCluster
	ourselves
)

// sourceFor returns the place where a key sets an effect.
func (c Config) sourceFor(e effect, key string) (source Source, ok bool) {
	switch e.of {
	case theCluster:
		source, ok = c.ClusterSources[key]
		return source, ok
	case ourselves:
		return c.Sources[key], c.isOurs(key)
	}
	source, ok = c.Sources[key]
	return source, ok
}

// isOurs reports whether node-dns.yaml sets a key.
func (c Config) isOurs(key string) bool {
	source, ok := c.Sources[key]
	return ok && source != c.ClusterSources[key]
}

func (c Config) effects() []effect {
	nodeIP := effect{value: addrText(c.NodeIP), keys: []string{"kubeletArguments.node-ip", "nodeIP"}}
	nodeName := effect{value: c.Resolver.NodeName, keys: []string{"kubeletArguments.hostname-override", "nodeName"}}
	for _, e := range []effect{nodeIP, nodeName} { // in node-config.yaml the arguments override the other keys, and node-dns.yaml overrides both
		if c.isOurs(e.keys[1]) {
			slices.Reverse(e.keys)
		}
	}
	r := c.Resolver
	kubeconfig := r.Kubeconfig
	if r.Off {
		kubeconfig = "none"
	}
	return []effect{
		{c.ClusterDomain.Relative(), []string{"clusterDomain", "kubeletArguments.cluster-domain", "dnsDomain"}, anybody},
		{addrTexts(c.DNSIPs), []string{"kubeletArguments.cluster-dns", "dnsIP"}, anybody},
		nodeIP, nodeName,
		{addrTexts(c.DNSIPs), []string{"clusterDNS"}, theCluster},
		{nameserver.Join(c.ClusterDNS), []string{"clusterDNS"}, ourselves},
		{c.KubeletResolvConf, []string{"kubeletArguments.resolv-conf", "resolvConf"}, theCluster},
		{string(c.ResolvConf), []string{"resolvConf"}, ourselves},
		{c.DNSBindAddress.String(), []string{"dnsBindAddress"}, anybody},
		{nameserver.Join(c.DNSNameservers), []string{"dnsNameservers"}, anybody},
		{c.DNSRecursiveResolvConf, []string{"dnsRecursiveResolvConf"}, anybody},
		{c.MasterKubeConfig, []string{"masterKubeConfig"}, anybody},
		{texts(c.PodCIDRs), []string{"podCIDRs", "proxyArguments.cluster-cidr"}, anybody},
		{texts(c.ServiceCIDRs), []string{"serviceCIDRs"}, anybody},
		{c.Listen.String(), []string{"listen"}, anybody},
		{c.Intercept.String(), []string{"intercept"}, anybody},
		{nameserver.Join(c.Upstreams), []string{"upstreams"}, anybody},
		{routesText(c.Routes), []string{"routes"}, anybody},
		{c.AllowFrom.String(), []string{"allowFrom"}, anybody},
		{strconv.Itoa(c.ClientRateLimit), []string{"clientRateLimit"}, anybody},
		{strconv.Itoa(c.CacheSize), []string{"cacheSize"}, anybody},
		{strconv.Itoa(c.ServeStale), []string{"serveStale"}, anybody},
		{strconv.FormatBool(c.Prefetch), []string{"prefetch"}, anybody},
		{strconv.Itoa(c.DNSForwardMax), []string{"dnsForwardMax"}, anybody},
		{strconv.FormatBool(c.DomainNeeded), []string{"domainNeeded"}, anybody},
		{strconv.FormatBool(c.Cookies), []string{"cookies"}, anybody},
		{strconv.FormatBool(c.UseCapsForID), []string{"useCapsForID"}, anybody},
		{string(c.DNSOverTLS), []string{"dnsOverTLS"}, anybody},
		{string(c.DBus), []string{"dbus"}, anybody},
		{c.Metrics.addressText(), []string{"metrics.address"}, anybody},
		{string(c.Metrics.Namespace), []string{"metrics.namespace"}, anybody},
		{strings.ToLower(c.LogLevel.String()), []string{"logLevel"}, anybody},
		{kubeconfig, []string{"kubeconfig"}, anybody},
		{string(r.Profile), []string{"zoneProfile"}, anybody},
		{string(r.PodNames), []string{"pods"}, anybody},
		{strconv.FormatBool(r.EndpointPodNames), []string{"endpointPodNames"}, anybody},
		{strconv.FormatBool(r.IgnoreEmptyService), []string{"ignoreEmptyService"}, anybody},
		{strconv.FormatBool(r.ZonalNames), []string{"zonalNames"}, anybody},
		{strconv.FormatBool(r.SameZoneFirst), []string{"sameZoneFirst"}, anybody},
		{strconv.FormatBool(r.FromCluster), []string{"fromCluster"}, anybody},
		{listText(r.Namespaces), []string{"namespaces"}, anybody},
		{secondsText(r.TTL), []string{"clusterTTL"}, anybody},
		{secondsText(r.NegativeTTL), []string{"clusterNegativeTTL"}, anybody},
		{secondsText(r.SnapshotMaxAge), []string{"snapshotMaxAge"}, anybody},
		{strconv.FormatBool(r.Autopath), []string{"autopath"}, anybody},
		{texts(r.Listen), []string{"clusterListen"}, anybody},
		{texts(r.Clients), []string{"clusterClients"}, anybody},
	}
}

// String returns the setting as in the file.
func (l Listen) String() string {
	var words []string
	if l.Auto {
		words = append(words, "auto")
	}
	if l.All {
		words = append(words, "all")
	}
	for _, at := range l.Addrs {
		words = append(words, at.String())
	}
	return listText(words)
}

// String returns the setting as in the file.
func (a AllowFrom) String() string {
	var words []string
	if a.All {
		words = append(words, "all")
	}
	if a.Local {
		words = append(words, "local")
	}
	for _, network := range a.Networks {
		words = append(words, network.String())
	}
	return listText(words)
}

func addrText(addr netip.Addr) string {
	if !addr.IsValid() {
		return ""
	}
	return addr.String()
}

// addrTexts formats addresses. An unspecified one means the node IP.
func addrTexts(addrs []netip.Addr) string {
	var words []string
	for _, addr := range addrs {
		word := addr.String()
		if addr.IsUnspecified() {
			word += " -> node IP"
		}
		words = append(words, word)
	}
	return listText(words)
}

func texts[T fmt.Stringer](values []T) string {
	var words []string
	for _, value := range values {
		words = append(words, value.String())
	}
	return listText(words)
}

func routesText(routes []Route) string {
	var words []string
	for _, route := range routes {
		words = append(words, route.Domain.Relative()+" via "+nameserver.Join(route.Servers))
	}
	return listText(words)
}

// maxListed bounds the elements shown of a list.
const maxListed = 8

func listText(words []string) string {
	if more := len(words) - maxListed; more > 0 {
		words = append(slices.Clone(words[:maxListed]), fmt.Sprintf("and %d more", more))
	}
	if len(words) == 0 {
		return "none"
	}
	return strings.Join(words, " ")
}

func secondsText(d time.Duration) string { return strconv.Itoa(int(d / time.Second)) }
