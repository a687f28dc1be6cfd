package zone

import (
	"net/netip"
	"slices"
	"time"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
)

// Profile selects whose answers are given where OpenShift 3 and Kubernetes differ.
type Profile uint8

// The profiles. docs/reference/cluster-zone.md describes what they share and where they differ.
const (
	Kubernetes Profile = iota // the Kubernetes DNS specification 1.1.0 and CoreDNS's extensions
	OpenShift                 // SkyDNS in the node process of OpenShift 3
)

// PodNames selects the addresses for which A-B-C-D.NAMESPACE.pod exists.
type PodNames uint8

// The PodNames, as in CoreDNS's `pods` option.
const (
	PodsInsecure PodNames = iota // any address, in an existing namespace; with OpenShift in any namespace
	PodsVerified                 // addresses of Pods in the namespace
	PodsDisabled                 // none
)

// Config configures a Resolver. It must not change once a Resolver has it.
type Config struct {
	// Domains are the cluster domains, at least one. PTR records point into the first.
	Domains []dnsname.Name

	Profile  Profile
	PodNames PodNames
	// EndpointPodNames names endpoints without a hostname after their pods instead of their
	// addresses.
	EndpointPodNames bool
	// IgnoreEmptyService answers NXDOMAIN for a ClusterIP service without a ready endpoint.
	IgnoreEmptyService bool
	// Namespaces are the namespaces whose names exist. Empty means all.
	Namespaces []string
	// Zonal enables ZONE.pin._zone.SERVICE.NAMESPACE.svc, the endpoints of a headless service in a
	// topology zone, and ZONE.prefer._zone…, which falls back to all endpoints if the zone has
	// none.
	Zonal bool
	// SameZoneFirst puts address records of endpoints in this node's topology zone first in the
	// answer for a headless service, if the Snapshot knows the zone. No record is omitted.
	SameZoneFirst bool

	// TTL applies to positive answers, NegativeTTL to the others. A negative value means the
	// profile's default: 5 s for both with Kubernetes, 30 s and 60 s with OpenShift.
	TTL, NegativeTTL time.Duration

	// ServiceCIDRs and PodCIDRs are the networks whose reverse zones belong to the cluster: unknown
	// names there do not exist. Next answers all other reverse names, except those of ClusterIPs if
	// ServiceCIDRs is empty, and those of endpoints if PodCIDRs is empty.
	ServiceCIDRs, PodCIDRs []netip.Prefix

	// ClusterSet is the domain of imports from other clusters (KEP-1645), used if a Snapshot has
	// Imports. The zero Name disables it.
	ClusterSet dnsname.Name

	// Nameservers are the addresses of ns.dns.DOMAIN, the nameserver in the zones' NS records: the
	// addresses where we answer.
	Nameservers []netip.Addr

	// Next answers for names outside the cluster: targets of ExternalName services, and other
	// reverse zones.
	Next dnsserver.Handler

	// Rotate returns a number from 0 to n-1, the index of the record that comes first. nil picks a
	// random one.
	Rotate func(n int) int
}

// ClusterSet is the domain that KEP-1645 defines for Config.ClusterSet.
const ClusterSet = "clusterset.local"

// soaTimes are the fields of an SOA record between its serial number and its negative TTL, in
// seconds.
type soaTimes struct{ refresh, retry, expire uint32 }

// settings are a Config in the form that lookups use.
type settings struct {
	Config
	domains          []domain
	namespaces       map[string]bool // nil means all
	cidrs            []netip.Prefix
	anyService       bool // ClusterIPs may be anywhere, because their networks are unknown
	anyPod           bool // the same for endpoints
	ttl, negativeTTL uint32
	soa              soaTimes
	priority         uint16 // of SRV records
	isOpenShift      bool
	nothing          *Snapshot
	clusterSet       *domain // nil if disabled
}

type domain struct {
	wire   string // in wire format, lower case, with the root label
	labels int
}

func newSettings(cfg Config) *settings {
	s := &settings{Config: cfg, isOpenShift: cfg.Profile == OpenShift, nothing: nothing()}
	for _, name := range cfg.Domains {
		s.domains = append(s.domains, domain{wire: string(wireName(name.String())), labels: name.Labels()})
	}
	if !cfg.ClusterSet.IsZero() {
		s.clusterSet = &domain{wire: string(wireName(cfg.ClusterSet.String())), labels: cfg.ClusterSet.Labels()}
	}
	if len(cfg.Namespaces) > 0 {
		s.namespaces = map[string]bool{}
		for _, namespace := range cfg.Namespaces {
			s.namespaces[namespace] = true
		}
	}
	invalid := func(cidr netip.Prefix) bool { return !cidr.IsValid() }
	services, pods := slices.DeleteFunc(slices.Clone(cfg.ServiceCIDRs), invalid), slices.DeleteFunc(slices.Clone(cfg.PodCIDRs), invalid)
	s.cidrs = slices.Concat(services, pods)
	s.anyService, s.anyPod = len(services) == 0, len(pods) == 0
	ttl, negative := 5*time.Second, 5*time.Second
	s.soa = soaTimes{7200, 1800, 86400}
	if s.isOpenShift {
		ttl, negative = 30*time.Second, 60*time.Second
		s.soa = soaTimes{28800, 7200, 604800}
		s.priority = 10
	}
	s.ttl, s.negativeTTL = seconds(cfg.TTL, ttl), seconds(cfg.NegativeTTL, negative)
	return s
}

// nothing returns a Snapshot without objects. It has imports, so that their names are not forwarded
// before the API has been read.
func nothing() *Snapshot {
	b := new(Builder)
	b.SetImports(true)
	return b.Snapshot(time.Time{})
}

// seconds returns set, or the default if set is negative.
func seconds(set, byDefault time.Duration) uint32 {
	if set < 0 {
		set = byDefault
	}
	return uint32(set / time.Second)
}
