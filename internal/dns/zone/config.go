package zone

import (
	"net/netip"
	"slices"
	"time"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
)

// Profile is whose answers are given where OpenShift 3 and Kubernetes differ.
type Profile uint8

// The profiles. docs/reference/cluster-zone.md says what they have in common, and where they part.
const (
	Kubernetes Profile = iota // the Kubernetes DNS specification 1.1.0, and what CoreDNS adds
	OpenShift                 // SkyDNS in the node process of OpenShift 3
)

// PodNames says for which addresses A-B-C-D.NAMESPACE.pod exists.
type PodNames uint8

// The PodNames, as CoreDNS's `pods` has them.
const (
	PodsInsecure PodNames = iota // any address; in a namespace that exists, with OpenShift in any
	PodsVerified                 // those that a Pod of the namespace has
	PodsDisabled                 // none
)

// Config says what a Resolver answers for, and how. It is not changed once a Resolver has it.
type Config struct {
	// Domains are the cluster domains. The first is the one that PTR records point into; at least one.
	Domains []dnsname.Name

	Profile  Profile
	PodNames PodNames
	// EndpointPodNames names an endpoint without a hostname after its pod, not after its address.
	EndpointPodNames bool
	// IgnoreEmptyService has a ClusterIP service without a ready endpoint not exist.
	IgnoreEmptyService bool
	// Namespaces are those whose names exist. Empty: all.
	Namespaces []string
	// Zonal has ZONE.pin._zone.SERVICE.NAMESPACE.svc, the endpoints of a headless service in a topology zone, and
	// ZONE.prefer._zone…, which is all of them while the zone has none.
	Zonal bool
	// SameZoneFirst has address records of a headless service begin with those of endpoints in this node's topology zone, while a
	// Snapshot knows that. None is left out.
	SameZoneFirst bool

	// TTL is of positive answers, NegativeTTL of the others. Negative: the profile's own, 5 s for both with Kubernetes,
	// 30 s and 60 s with OpenShift.
	TTL, NegativeTTL time.Duration

	// ServiceCIDRs and PodCIDRs are the networks whose reverse zones are the cluster's: what is not known there does not
	// exist. Elsewhere names are Next's, but those of ClusterIPs while ServiceCIDRs is empty, and those of endpoints while
	// PodCIDRs is.
	ServiceCIDRs, PodCIDRs []netip.Prefix

	// ClusterSet is the domain of what is imported from other clusters (KEP-1645), while a Snapshot has Imports. Zero: no such names are answered.
	ClusterSet dnsname.Name

	// Nameservers are the addresses of ns.dns.DOMAIN, the nameserver of the zones: where they are answered.
	Nameservers []netip.Addr

	// Next answers for what is not the cluster's: targets of ExternalName services, and other reverse zones.
	Next dnsserver.Handler

	// Rotate returns from 0 to n-1: which of n records is the first of an answer. Nil: a random one.
	Rotate func(n int) int
}

// ClusterSet is the domain that KEP-1645 has for Config.ClusterSet.
const ClusterSet = "clusterset.local"

// soaTimes are the numbers of a SOA record between its serial number and its negative TTL, in seconds.
type soaTimes struct{ refresh, retry, expire uint32 }

// settings are what a Config says, the way it is needed for each question.
type settings struct {
	Config
	domains          []domain
	namespaces       map[string]bool // nil: all
	cidrs            []netip.Prefix
	anyService       bool // ClusterIPs may be anywhere: their networks are not known
	anyPod           bool // and so may endpoints
	ttl, negativeTTL uint32
	soa              soaTimes
	priority         uint16 // of SRV records
	isOpenShift      bool
	nothing          *Snapshot
	clusterSet       *domain // nil: none
}

// domain is a cluster domain.
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

// nothing is a Snapshot without an object. It has imports, so that their names are not asked elsewhere before the API has been read.
func nothing() *Snapshot {
	b := new(Builder)
	b.SetImports(true)
	return b.Snapshot(time.Time{})
}

// seconds returns set, or the default when it is negative.
func seconds(set, byDefault time.Duration) uint32 {
	if set < 0 {
		set = byDefault
	}
	return uint32(set / time.Second)
}
