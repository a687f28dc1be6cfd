package nodeconfig

import (
	"cmp"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/node-dns/node-dns/internal/nameserver"
)

// A Setting is a key that a file sets, and what it comes to.
type Setting struct {
	Key    string // as in Config.Sources
	Value  string // what is in effect; "" where By is not
	By     string // the key that wins over it, with its place; "": it is in effect itself
	Source Source
}

// Settings are the keys that the files set, in the order of the files and their lines.
func (c Config) Settings() []Setting {
	var all []Setting
	for _, e := range c.effects() {
		winner := ""
		for _, key := range e.keys {
			source, ok := c.Sources[key]
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

// effect is one value, and the keys that set it, the strongest first: see Config.
type effect struct {
	value string
	keys  []string
}

// effects are all. Two files have keys of one name for different matters: whose it is, the place says.
func (c Config) effects() []effect {
	isOurs := func(key string) bool { return filepath.Base(c.Sources[key].File) == "node-dns.yaml" }
	nodeIP := effect{addrText(c.NodeIP), []string{"kubeletArguments.node-ip", "nodeIP"}}
	nodeName := effect{c.Resolver.NodeName, []string{"kubeletArguments.hostname-override", "nodeName"}}
	for _, e := range []effect{nodeIP, nodeName} { // node-config.yaml's own arguments win over its other keys, and ours over these
		if isOurs(e.keys[1]) {
			slices.Reverse(e.keys)
		}
	}
	clusterDNS := effect{addrTexts(c.DNSIPs), []string{"clusterDNS"}}
	if isOurs("clusterDNS") {
		clusterDNS.value = nameserver.Join(c.ClusterDNS)
	}
	resolvConf := effect{c.KubeletResolvConf, []string{"kubeletArguments.resolv-conf", "resolvConf"}}
	ours := effect{keys: []string{}}
	if isOurs("resolvConf") {
		resolvConf.keys, ours = resolvConf.keys[:1], effect{string(c.ResolvConf), []string{"resolvConf"}}
	}
	r := c.Resolver
	kubeconfig := r.Kubeconfig
	if r.Off {
		kubeconfig = "none"
	}
	return []effect{
		{c.ClusterDomain.Relative(), []string{"clusterDomain", "kubeletArguments.cluster-domain", "dnsDomain"}},
		{addrTexts(c.DNSIPs), []string{"kubeletArguments.cluster-dns", "dnsIP"}},
		nodeIP, nodeName, clusterDNS, resolvConf, ours,
		{c.DNSBindAddress.String(), []string{"dnsBindAddress"}},
		{nameserver.Join(c.DNSNameservers), []string{"dnsNameservers"}},
		{c.DNSRecursiveResolvConf, []string{"dnsRecursiveResolvConf"}},
		{c.MasterKubeConfig, []string{"masterKubeConfig"}},
		{texts(c.PodCIDRs), []string{"podCIDRs", "proxyArguments.cluster-cidr"}},
		{texts(c.ServiceCIDRs), []string{"serviceCIDRs"}},
		{c.Listen.String(), []string{"listen"}},
		{nameserver.Join(c.Upstreams), []string{"upstreams"}},
		{routesText(c.Routes), []string{"routes"}},
		{c.AllowFrom.String(), []string{"allowFrom"}},
		{strconv.Itoa(c.ClientRateLimit), []string{"clientRateLimit"}},
		{strconv.Itoa(c.CacheSize), []string{"cacheSize"}},
		{strconv.Itoa(c.ServeStale), []string{"serveStale"}},
		{strconv.FormatBool(c.Prefetch), []string{"prefetch"}},
		{strconv.Itoa(c.DNSForwardMax), []string{"dnsForwardMax"}},
		{strconv.FormatBool(c.DomainNeeded), []string{"domainNeeded"}},
		{strconv.FormatBool(c.Cookies), []string{"cookies"}},
		{strconv.FormatBool(c.UseCapsForID), []string{"useCapsForID"}},
		{string(c.DBus), []string{"dbus"}},
		{c.Metrics.addressText(), []string{"metrics.address"}},
		{string(c.Metrics.Namespace), []string{"metrics.namespace"}},
		{strings.ToLower(c.LogLevel.String()), []string{"logLevel"}},
		{kubeconfig, []string{"kubeconfig"}},
		{string(r.Profile), []string{"zoneProfile"}},
		{string(r.PodNames), []string{"pods"}},
		{strconv.FormatBool(r.EndpointPodNames), []string{"endpointPodNames"}},
		{strconv.FormatBool(r.IgnoreEmptyService), []string{"ignoreEmptyService"}},
		{strconv.FormatBool(r.ZonalNames), []string{"zonalNames"}},
		{listText(r.Namespaces), []string{"namespaces"}},
		{secondsText(r.TTL), []string{"clusterTTL"}},
		{secondsText(r.NegativeTTL), []string{"clusterNegativeTTL"}},
		{strconv.FormatBool(r.Autopath), []string{"autopath"}},
		{texts(r.Listen), []string{"clusterListen"}},
		{texts(r.Clients), []string{"clusterClients"}},
	}
}

// String is as it stands in the file.
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

// String is as it stands in the file.
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

// addrTexts are addresses of which an unspecified one stands for the node IP.
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

// maxListed bounds what a list shows.
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
