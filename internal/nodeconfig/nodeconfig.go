// Package nodeconfig is what the files on the node say about its DNS: OpenShift's node-config.yaml, the kubelet's
// KubeletConfiguration and our own node-dns.yaml, validated and made into one Config, and where that puts us on this
// host (Placement).
//
// It is apart from upstream, which is about the nameservers that the network hands out, and from hostdns, which writes
// files: nodeconfig only reads, and of the host it knows no more than its callers tell it.
package nodeconfig

import (
	"log/slog"
	"net/netip"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// The defaults of node-dns.yaml. The numbers are dnsmasq's as openshift-ansible configured it on every node
// (cache-size=10000, dns-forward-max=10000, domain-needed).
const (
	DefaultClusterDomain = "cluster.local"
	DefaultCacheSize     = 10000
	DefaultServeStale    = 24 * 60 * 60 // RFC 8767 section 5 finds one to three days good
	DefaultDNSForwardMax = 10000
)

// Config is what all files said together, with the defaults where they said nothing. Of two files that speak of the
// same thing, node-dns.yaml wins. A Config is a value: treat its slices and its map as read-only.
type Config struct {
	// ClusterDomain is the cluster's zone; never the root. In order: clusterDomain of node-dns.yaml,
	// kubeletArguments.cluster-domain, dnsDomain; cluster.local where the files that exist say nothing.
	// The zero Name: it is not known, because a file that may say it cannot be read, or has a fault there. The default
	// must not stand in for it then: the real one's names would go to the site's nameservers. Only beside an error.
	ClusterDomain dnsname.Name

	// DNSIPs are the nameservers that the kubelet gives to pods: kubeletArguments.cluster-dns, else dnsIP; or clusterDNS
	// of a KubeletConfiguration. An unspecified address (0.0.0.0, ::) stands for the node IP. Empty: nothing is said.
	DNSIPs []netip.Addr

	// NodeIP is the address that the configuration gives to the node; the zero Addr leaves it to the routes.
	// In order: nodeIP of node-dns.yaml, kubeletArguments.node-ip, nodeIP of node-config.yaml.
	NodeIP netip.Addr

	// DNSBindAddress is where OpenShift's node process had its own nameserver, 127.0.0.1:53 on 3.6 to 3.11. It may be
	// unspecified; Place says which addresses that means. Zero: none.
	DNSBindAddress netip.AddrPort

	// DNSNameservers are the recursive nameservers that node-config.yaml names for the node's nameserver.
	DNSNameservers []nameserver.Server

	// DNSRecursiveResolvConf is a resolv.conf whose nameservers are added to DNSNameservers; "" is none. This and the
	// other paths are absolute wherever the file that names them was read by an absolute path.
	DNSRecursiveResolvConf string

	// MasterKubeConfig is the kubeconfig with which the node speaks to the API; "" is none.
	MasterKubeConfig string

	// KubeletResolvConf is the resolv.conf that the kubelet hands on to pods; "" is its default, /etc/resolv.conf.
	KubeletResolvConf string

	// PodCIDRs are the networks of the pods: podCIDRs of node-dns.yaml, else proxyArguments.cluster-cidr.
	PodCIDRs []netip.Prefix

	// ServiceCIDRs are the networks of the services. Nil is unknown: see ReverseZones. Empty but not nil is none.
	ServiceCIDRs []netip.Prefix

	// Listen is where to listen.
	Listen Listen

	// AllowFrom says who may ask.
	AllowFrom AllowFrom

	// ClientRateLimit is how many queries a second are taken of one client; 0 is no limit.
	ClientRateLimit int

	// Upstreams are the admin's static upstream nameservers, in order. Empty: those that the network hands out.
	Upstreams []nameserver.Server

	// Routes are the admin's static domain routes, in the file's order, each domain once.
	Routes []Route

	// Resolver are the settings of the built-in cluster resolver.
	Resolver Resolver

	// IsOpenShift says that there is a node-config.yaml, or a bootstrap one, with faults or without.
	IsOpenShift bool

	// ClusterDNS are the servers that the cluster zone is forwarded to, where the admin names them. Empty: see Place.
	ClusterDNS []nameserver.Server

	// ResolvConf says by what the host's own names are pointed at this node.
	ResolvConf ResolvConf

	// CacheSize is the number of responses to remember; 0 is none.
	CacheSize int

	// ServeStale is for how many seconds after its TTL a response is given out where no upstream answers (RFC 8767); 0 is not
	// at all.
	ServeStale int

	// Prefetch has names that are in use asked for before their TTL ends.
	Prefetch bool

	// DNSForwardMax is the number of queries that may wait for upstreams at the same time.
	DNSForwardMax int

	// DomainNeeded keeps queries for the addresses of single-label names from the upstreams.
	DomainNeeded bool

	// Cookies has the upstreams asked with DNS Cookies (RFC 7873).
	Cookies bool

	// UseCapsForID has the upstreams asked in letters of a random case, which their responses must have too
	// (draft-vixie-dnsext-dns0x20).
	UseCapsForID bool

	// DNSOverTLS says whether upstreams that were given as plain ones are asked over TLS.
	DNSOverTLS DNSOverTLS

	// DBus says which names to own on the system bus.
	DBus DBus

	// Metrics are the numbers that the daemon shows.
	Metrics Metrics

	LogLevel slog.Level

	// Sources says where each key was set, under the key's name in its file, nested ones with dots: "dnsDomain",
	// "kubeletArguments.cluster-dns", "upstreams". Keys that are not set, or had a fault, are missing.
	Sources map[string]Source

	// ClusterSources are those of the cluster's file alone: node-dns.yaml has keys of the same names, some for other matters
	// (clusterDNS, resolvConf), which take their place in Sources.
	ClusterSources map[string]Source `json:"-"`

	// Files are the files that were read, in order, those with faults too. The cluster's own is named where FactsFile
	// stood in for it, too.
	Files []string

	// Facts are what the cluster's file says, for the facts file; nil: not known.
	Facts *Facts `json:",omitzero"`

	// FactsFile is the facts file that Facts was taken from, because the cluster's file may not be read; else "".
	FactsFile string `json:",omitzero"`

	// FactsWanted says why the privileged half must write the facts file: it is needed, and does not exist, is damaged, or
	// is not about the file that is there now. "": it need not, or nothing can be seen of that file.
	FactsWanted string `json:",omitzero"`
}

// Source is the place of a key in a file.
type Source struct {
	File string
	Line int // from 1
}

// Route sends the queries for a domain, and for all below it, to servers of its own.
type Route struct {
	Domain  dnsname.Name
	Servers []nameserver.Server // at least one
}

// Listen is the setting of that name. The zero Listen means the same as Auto.
type Listen struct {
	Auto  bool             // the node IP, or the local addresses among DNSIPs
	All   bool             // every local address but loopback, at port 53, as dnsmasq's bind-dynamic with except-interface=lo
	Addrs []netip.AddrPort // these, never unspecified
}

func defaults() Config {
	domain, err := dnsname.Parse(DefaultClusterDomain)
	if err != nil {
		panic(err) // a constant
	}
	return Config{
		ClusterDomain: domain,
		Listen:        Listen{Auto: true},
		AllowFrom:     AllowFrom{Local: true},
		CacheSize:     DefaultCacheSize,
		ServeStale:    DefaultServeStale,
		Prefetch:      true,
		DNSForwardMax: DefaultDNSForwardMax,
		DomainNeeded:  true,
		LogLevel:      slog.LevelInfo,
		Resolver:      Resolver{PodNames: PodsInsecure, TTL: -1, NegativeTTL: -1, SnapshotMaxAge: defaultSnapshotMaxAge, Autopath: true},
		DNSOverTLS:    DNSOverTLSNo,
		DBus:          DBusDnsmasq,
		ResolvConf:    ResolvConfFile,
		Metrics:       DefaultMetrics,
		Sources:       map[string]Source{},
	}
}
