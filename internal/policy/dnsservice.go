package policy

import (
	"net/netip"
	"slices"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/dns/zone"
)

// DNSService is the cluster's DNS Service, from the API. It is empty before the cluster is known.
type DNSService struct {
	IsKnown   bool // the API has been read
	Addrs     []netip.Addr
	Namespace string
	Pods      []nameserver.Server // the ready ones
}

// NewDNSService returns the cluster's DNS Service. known is nil before the cluster is known.
func NewDNSService(known *zone.Snapshot) DNSService {
	s := DNSService{IsKnown: known != nil}
	if service := dnsService(known); service != nil {
		s.Addrs, s.Namespace, s.Pods = service.ClusterIPs, service.Key.Namespace, podsOf(known, service)
	}
	return s
}

// Steady returns s, with its last ready pods while none is ready. They may answer before the API
// says so, and without them all their names would fail.
func (s DNSService) Steady(before DNSService) DNSService {
	if len(s.Pods) == 0 && len(s.Addrs) > 0 && slices.Equal(s.Addrs, before.Addrs) {
		s.Pods = before.Pods
	}
	return s
}

// dnsServices are the names of the cluster's DNS Service: of kubeadm and most distributions, RKE2,
// and OpenShift 4.
var dnsServices = []zone.Key{
	{Namespace: "kube-system", Name: "kube-dns"},
	{Namespace: "kube-system", Name: "rke2-coredns-rke2-coredns"},
	{Namespace: "openshift-dns", Name: "dns-default"},
}

// dnsService returns the cluster's DNS Service, or nil if s is nil or has no such Service.
func dnsService(s *zone.Snapshot) *zone.Service {
	if s == nil {
		return nil
	}
	for _, key := range dnsServices {
		if service := s.Service(key); service != nil {
			return service
		}
	}
	return nil
}

// podsOf returns the ready endpoints of a Service, of the family of its first address. A query to
// them does not come back, as one to the Service would.
func podsOf(s *zone.Snapshot, service *zone.Service) (pods []nameserver.Server) {
	if len(service.ClusterIPs) == 0 {
		return nil
	}
	isDNS := func(p zone.Port) bool { return p.Number == nameserver.Port && p.Protocol == zone.UDP }
	i := slices.IndexFunc(service.Ports, isDNS)
	if i < 0 {
		return nil
	}
	for slice := range s.SlicesOf(service.Key) {
		j := slices.IndexFunc(slice.Ports, func(p zone.Port) bool {
			return p.Name == service.Ports[i].Name && p.Protocol == zone.UDP && p.Number != 0
		})
		for _, e := range slice.Endpoints {
			if j >= 0 && e.Ready && e.Addr.Is4() == service.ClusterIPs[0].Is4() {
				pods = append(pods, nameserver.Server{Addr: netip.AddrPortFrom(e.Addr, slice.Ports[j].Number)})
			}
		}
	}
	return pods
}
