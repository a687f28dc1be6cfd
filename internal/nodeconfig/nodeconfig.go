// Package nodeconfig reads the node's DNS settings from its configuration files: OpenShift's
// node-config.yaml, the kubelet's KubeletConfiguration and our own node-dns.yaml. It validates
// them, merges them into one Config, and derives the node's listen addresses and servers from it
// (Placement). It also reads the kubeconfig that they name.
//
// Package upstream handles the nameservers that the network provides, and package hostdns writes
// files. Package nodeconfig only reads, and knows nothing about the host except what its callers
// pass.
package nodeconfig

import (
	"log/slog"
	"net/netip"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// Defaults of node-dns.yaml. The numbers are those of dnsmasq as openshift-ansible configured it on
// every node (cache-size=10000, dns-forward-max=10000, domain-needed).
const (
	DefaultClusterDomain = "cluster.local"
	DefaultCacheSize     = 10000
	DefaultServeStale    = 24 * 60 * 60 // RFC 8767 section 5 recommends one to three days
	DefaultDNSForwardMax = 10000
)

// Config has the merged settings of all files, with defaults for missing keys. node-dns.yaml
// overrides the other file. A Config is a value: treat its slices and its map as read-only.
type Config struct {
	// ClusterDomain is the cluster's zone, never the root. It is the first one set of clusterDomain
	// in node-dns.yaml, kubeletArguments.cluster-domain, and dnsDomain, or else cluster.local. It
	// is the zero Name, with an error, if it is unknown, because a file that may set it cannot be
	// read or is faulty there. The default must not replace it then: names of the real domain would
	// go to the site's nameservers.
	ClusterDomain dnsname.Name

	// DNSIPs are the nameservers that the kubelet gives to pods: kubeletArguments.cluster-dns, else
	// dnsIP; or clusterDNS of a KubeletConfiguration. An unspecified address (0.0.0.0, ::) means
	// the node IP. Empty if not set.
	DNSIPs []netip.Addr

	// NodeIP is the configured address of the node: the first one set of nodeIP in node-dns.yaml,
	// kubeletArguments.node-ip, and nodeIP in node-config.yaml. With the zero Addr, the routes
	// decide.
	NodeIP netip.Addr

	// DNSBindAddress is the listen address of the nameserver in OpenShift's node process,
	// 127.0.0.1:53 in 3.6 to 3.11. It may be unspecified; Place resolves that. Zero if there is
	// none.
	DNSBindAddress netip.AddrPort

	// DNSNameservers are the upstreams in node-config.yaml for the node's nameserver.
	DNSNameservers []nameserver.Server

	// DNSRecursiveResolvConf is a resolv.conf with more nameservers for DNSNameservers. It is empty
	// if there is none. This and the other paths are absolute if the file that names them was read
	// by an absolute path.
	DNSRecursiveResolvConf string

	// MasterKubeConfig is the kubeconfig of the node itself. It is empty if there is none.
	MasterKubeConfig string

	// KubeletResolvConf is the resolv.conf that the kubelet passes on to pods. Empty means its
	// default, /etc/resolv.conf.
	KubeletResolvConf string

	// PodCIDRs are the pod networks: podCIDRs of node-dns.yaml, else proxyArguments.cluster-cidr.
	PodCIDRs []netip.Prefix

	// ServiceCIDRs are the service networks. Nil means unknown: see ReverseZones. Empty but not nil
	// means none.
	ServiceCIDRs []netip.Prefix

	// Listen selects the listen addresses.
	Listen Listen

	// Intercept selects the addresses whose queries come to this node while it answers.
	Intercept Intercept

	// AllowFrom selects the clients that may query.
	AllowFrom AllowFrom

	// ClientRateLimit is the maximum number of queries per second from one client. 0 means no
	// limit.
	ClientRateLimit int

	// Upstreams are the admin's static upstream nameservers, in order. If empty, those that the
	// network provides are used.
	Upstreams []nameserver.Server

	// Routes are the admin's static domain routes, in file order, each domain once.
	Routes []Route

	// Resolver has the settings of the built-in cluster resolver.
	Resolver Resolver

	// IsOpenShift reports whether a node-config.yaml or a bootstrap one exists, valid or not.
	IsOpenShift bool

	// ClusterDNS are the configured servers for the cluster zone. If empty, see Place.
	ClusterDNS []nameserver.Server

	// ResolvConf selects how the host's own resolution is pointed to this node.
	ResolvConf ResolvConf

	// CacheSize is the maximum number of cached responses. 0 disables the cache.
	CacheSize int

	// ServeStale is how long, in seconds after its TTL, a response may be served if no upstream
	// answers (RFC 8767). 0 disables that.
	ServeStale int

	// Prefetch refreshes names in use before their TTL ends.
	Prefetch bool

	// DNSForwardMax is the maximum number of queries that wait for upstreams at the same time.
	DNSForwardMax int

	// DomainNeeded keeps address queries for single-label names from the upstreams.
	DomainNeeded bool

	// Cookies adds DNS Cookies to upstream queries (RFC 7873).
	Cookies bool

	// UseCapsForID randomizes the case of upstream queries. Their responses must have the same case
	// (draft-vixie-dnsext-dns0x20).
	UseCapsForID bool

	// DNSOverTLS selects whether upstreams configured as plain are queried over TLS.
	DNSOverTLS DNSOverTLS

	// DBus selects the names to own on the system bus.
	DBus DBus

	// Metrics configures the daemon's metrics.
	Metrics Metrics

	LogLevel slog.Level

	// Sources has the place of each key, under the key's name in its file, with dots for nested
	// keys: "dnsDomain", "kubeletArguments.cluster-dns", "upstreams". Keys that are not set or
	// faulty are missing.
	Sources map[string]Source

	// ClusterSources holds the places of keys in the cluster's file only. In Sources, keys of the
	// same name in node-dns.yaml replace them, although some have a different meaning (clusterDNS,
	// resolvConf).
	ClusterSources map[string]Source `json:"-"`

	// Files are the files that were read, in order, including faulty ones. The cluster's file is
	// included even if FactsFile replaced it.
	Files []string

	// Facts are the settings of the cluster's file, for the facts file. Nil if unknown.
	Facts *Facts `json:",omitzero"`

	// FactsFile is the facts file that Facts came from, if the cluster's file may not be read.
	// Otherwise it is empty.
	FactsFile string `json:",omitzero"`

	// FactsWanted is the reason why the privileged half must write the facts file: it is needed and
	// does not exist, is damaged, or is not about the current cluster's file. It is empty if it is
	// not needed, or if the state of that file is not visible.
	FactsWanted string `json:",omitzero"`
}

// Source is the place of a key in a file.
type Source struct {
	File string
	Line int // from 1
}

// Route sends the queries for a domain and its subdomains to its own servers.
type Route struct {
	Domain  dnsname.Name
	Servers []nameserver.Server // at least one
}

// Listen is the setting of the same name. The zero Listen means Auto.
type Listen struct {
	Auto  bool             // the node IP, or the local addresses in DNSIPs
	All   bool             // every local address except loopback, at port 53, like dnsmasq's bind-dynamic with except-interface=lo
	Addrs []netip.AddrPort // these addresses, never unspecified
}

func defaults() Config {
	return Config{
		ClusterDomain: dnsname.MustParse(DefaultClusterDomain),
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
