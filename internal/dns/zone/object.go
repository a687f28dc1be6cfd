package zone

import (
	"net/netip"
	"slices"
)

// Key names a Kubernetes object that has a namespace.
type Key struct{ Namespace, Name string }

// Kind is what DNS makes of a Service.
type Kind uint8

// The kinds of Service. NodePort and LoadBalancer have a ClusterIP, and are answered as such.
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
	Name     string // "": unnamed, and without an SRV name of its own
	Number   uint16 // 0: any (EndpointSlice ports may leave it out)
	Protocol Protocol
}

// Service is what DNS needs of a core/v1 Service. It is immutable once it is handed to a Builder.
type Service struct {
	Key
	Kind            Kind
	ClusterIPs      []netip.Addr // the first is spec.clusterIP; none for Headless and ExternalName
	ExternalName    string       // of an ExternalName: as the API has it, a name or an IP literal
	Ports           []Port       // in spec.ports' order
	PublishNotReady bool         // publishNotReadyAddresses: endpoints count as ready
	HasSelector     bool         // without one, endpointslice-controller makes no slices for it
}

// Slice is what DNS needs of a discovery.k8s.io/v1 EndpointSlice, or of one subset of a core/v1 Endpoints. It is
// immutable once it is handed to a Builder.
type Slice struct {
	Key
	Service   string // the name of its Service, which is in the same namespace; "": it has none
	Import    string // the name of its ServiceImport, which is in the same namespace; "": it has none
	Cluster   string // the cluster that its endpoints are in, with an Import
	Ports     []Port
	Endpoints []Endpoint
}

// Imported returns it as a Slice of its ServiceImport.
func (s *Slice) Imported() *Slice {
	imported := *s
	imported.Service, imported.Import = s.Import, ""
	return &imported
}

// Endpoint is one address of a Slice.
type Endpoint struct {
	Addr     netip.Addr
	Hostname string // "": none
	Pod      string // the name of the Pod behind it; "": none is known. It matters with Config.EndpointPodNames alone
	Zone     string // topology.kubernetes.io/zone; "": unknown
	Ready    bool   // conditions.ready, for which nil counts as true
}

// Pod is what DNS needs of a core/v1 Pod: who has an address.
type Pod struct {
	Key
	Addrs []netip.Addr // status.podIPs; none while it has none, or uses the host's network

	// OwnSearch: its search list is not the one that the kubelet gives to the pods of its namespace, because of its
	// dnsPolicy (None, Default) or its dnsConfig.
	OwnSearch bool
}

// equal says whether both Services say the same; nil is no Service.
func (s *Service) equal(other *Service) bool {
	if s == nil || other == nil {
		return s == other
	}
	return s.Key == other.Key && s.Kind == other.Kind && s.ExternalName == other.ExternalName &&
		s.PublishNotReady == other.PublishNotReady && s.HasSelector == other.HasSelector &&
		slices.Equal(s.ClusterIPs, other.ClusterIPs) && slices.Equal(s.Ports, other.Ports)
}
