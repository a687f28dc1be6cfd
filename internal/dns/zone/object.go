package zone

import (
	"net/netip"
	"slices"
)

// Key is the name of a namespaced Kubernetes object.
type Key struct{ Namespace, Name string }

// Kind is the kind of a Service for DNS.
type Kind uint8

// The kinds of Service. NodePort and LoadBalancer services have a ClusterIP and are answered like
// ClusterIP services.
const (
	ClusterIP Kind = iota
	Headless
	ExternalName
)

// Protocol is the transport of a Port.
type Protocol uint8

// The protocols of core/v1. The zero Protocol is TCP, as in the API.
const (
	TCP Protocol = iota
	UDP
	SCTP
)

// Port is a port of a Service or of a Slice.
type Port struct {
	Name     string // "" for an unnamed port, which has no SRV name of its own
	Number   uint16 // 0 means any; EndpointSlice ports may omit it
	Protocol Protocol
}

// Service holds the fields of a core/v1 Service that DNS uses. It is immutable once a Builder has
// it.
type Service struct {
	Key
	Kind            Kind
	ClusterIPs      []netip.Addr // the first is spec.clusterIP; none for Headless and ExternalName
	ExternalName    string       // of an ExternalName, as in the API: a name or an IP literal
	Ports           []Port       // in the order of spec.ports
	PublishNotReady bool         // publishNotReadyAddresses: endpoints count as ready
	HasSelector     bool         // if false, endpointslice-controller makes no slices for it
}

// Slice holds the fields of a discovery.k8s.io/v1 EndpointSlice that DNS uses, or of one subset of
// a core/v1 Endpoints. It is immutable once a Builder has it.
type Slice struct {
	Key
	Service   string // name of its Service in the same namespace, or ""
	Import    string // name of its ServiceImport in the same namespace, or ""
	Cluster   string // with Import: the cluster of its endpoints
	Ports     []Port
	Endpoints []Endpoint
}

// Imported returns a copy of s that belongs to its ServiceImport.
func (s *Slice) Imported() *Slice {
	imported := *s
	imported.Service, imported.Import = s.Import, ""
	return &imported
}

// Endpoint is one address of a Slice.
type Endpoint struct {
	Addr     netip.Addr
	Hostname string // "" if it has none
	Pod      string // name of the Pod, or "" if unknown; used only with Config.EndpointPodNames
	Zone     string // topology.kubernetes.io/zone; "" if unknown
	Ready    bool   // conditions.ready; nil there means true
}

// Pod holds the fields of a core/v1 Pod that DNS uses: the owner of an address.
type Pod struct {
	Key
	Addrs []netip.Addr // status.podIPs; empty while the Pod has none, or if it uses the host network

	// OwnSearch means that its search list differs from the one that the kubelet gives to pods of
	// its namespace, because of its dnsPolicy (None, Default) or its dnsConfig.
	OwnSearch bool
}

// equal reports whether both Services are equal; nil means no Service.
func (s *Service) equal(other *Service) bool {
	if s == nil || other == nil {
		return s == other
	}
	return s.Key == other.Key && s.Kind == other.Kind && s.ExternalName == other.ExternalName &&
		s.PublishNotReady == other.PublishNotReady && s.HasSelector == other.HasSelector &&
		slices.Equal(s.ClusterIPs, other.ClusterIPs) && slices.Equal(s.Ports, other.Ports)
}
