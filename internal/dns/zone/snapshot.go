package zone

import (
	"iter"
	"net/netip"
)

// Snapshot is the known state of the cluster at one moment. It is immutable. A Builder makes it.
type Snapshot struct {
	services   *table[*view]
	namespaces *table[namespace]
	addrs      *addrIndex
	pods       *table[member]
	podAddrs   *addrIndex
	counts     Counts
	serial     uint32
	stale      bool
	somePods   bool
	zone       string // of this node; "" if unknown

	imports   *Snapshot // from ServiceImports; nil if the API has none
	noImports bool      // the API has ServiceImports, but they are unknown
}

// Stale returns a Snapshot with the same objects, marked as known from an earlier run: answers are
// marked as stale (RFC 8914) and have a TTL of at most 30 s (RFC 8767 section 4).
func (s *Snapshot) Stale() *Snapshot {
	stale := *s
	stale.stale = true
	return &stale
}

// SomePods returns a Snapshot with the same objects, marked as having only some of the Pods: those
// of one node, or none for lack of permission. With PodsVerified, names of Pods are then SERVFAIL.
func (s *Snapshot) SomePods() *Snapshot {
	some := *s
	some.somePods = true
	return &some
}

// HasAllPods reports whether s does not come from SomePods.
func (s *Snapshot) HasAllPods() bool { return !s.somePods }

// Unimported returns a Snapshot with the same objects, marked as lacking the ServiceImports that
// the API has. Names in ClusterSet are then SERVFAIL.
func (s *Snapshot) Unimported() *Snapshot {
	without := *s
	without.noImports = true
	return &without
}

// Imports returns the ServiceImports and their Slices, as Services and Slices, or nil if the API
// has none.
func (s *Snapshot) Imports() *Snapshot { return s.imports }

// IsStale reports whether s comes from Stale.
func (s *Snapshot) IsStale() bool { return s.stale }

// Zone returns the topology zone of this node, or "" if unknown.
func (s *Snapshot) Zone() string { return s.zone }

// Counts returns the numbers of objects.
func (s *Snapshot) Counts() Counts { return s.counts }

// Services iterates over all Services in no particular order.
func (s *Snapshot) Services() iter.Seq[*Service] {
	return func(yield func(*Service) bool) {
		for _, v := range s.services.each {
			if v.svc != nil && !yield(v.svc) {
				return
			}
		}
	}
}

// Slices iterates over all Slices in no particular order, including those from SetEndpoints, by
// their own names, and those without a Service. Each Slice is valid only until the next one.
func (s *Snapshot) Slices() iter.Seq[*Slice] {
	return func(yield func(*Slice) bool) {
		var slice Slice
		for _, v := range s.services.each {
			for _, packed := range v.slices {
				packed.unpack(v.service(), &slice)
				if !yield(&slice) {
					return
				}
			}
		}
	}
}

// SlicesOf iterates over the Slices of a Service, in the order of their names. Each Slice is valid
// only until the next one.
func (s *Snapshot) SlicesOf(service Key) iter.Seq[*Slice] {
	return func(yield func(*Slice) bool) {
		v := s.services.get(viewKey(service))
		if v == nil {
			return
		}
		var slice Slice
		for _, packed := range v.slices {
			packed.unpack(service, &slice)
			if !yield(&slice) {
				return
			}
		}
	}
}

// Namespaces iterates over the names of all Namespace objects in no particular order.
func (s *Snapshot) Namespaces() iter.Seq[string] {
	return func(yield func(string) bool) {
		for name, n := range s.namespaces.each {
			if n.object && !yield(name) {
				return
			}
		}
	}
}

// Pods iterates over all Pods in no particular order.
func (s *Snapshot) Pods() iter.Seq[*Pod] {
	return func(yield func(*Pod) bool) {
		for _, m := range s.pods.each {
			if !yield(m.Pod) {
				return
			}
		}
	}
}

// AddrsOf returns the addresses of a Pod, named as by PodAt. It returns none if the Pod is unknown
// or has no address yet.
func (s *Snapshot) AddrsOf(pod string) []netip.Addr {
	for p := range s.Pods() {
		if podKey(p.Key) == pod {
			return p.Addrs
		}
	}
	return nil
}

// Service returns the Service with that key, or nil.
func (s *Snapshot) Service(key Key) *Service {
	if !isLabel(key.Name) || !isLabel(key.Namespace) {
		return nil
	}
	if v := s.services.get(viewKey(key)); v != nil {
		return v.svc
	}
	return nil
}

// podsAt iterates over the Pods with the address in no particular order.
func (s *Snapshot) podsAt(addr netip.Addr) iter.Seq[*Pod] {
	return func(yield func(*Pod) bool) {
		for _, ref := range s.podAddrs.at(addr) {
			if m := s.pods.get(s.podAddrs.names.of(uint32(ref))); m.has(addr) && !yield(m.Pod) {
				return
			}
		}
	}
}

// SearchNamespace returns the namespace whose search list the Pod with that address uses. It
// returns "" if there is no such Pod, if its search list is its own, or if Pods with different
// search lists have the address, which happens while an address passes from one Pod to another.
func (s *Snapshot) SearchNamespace(addr netip.Addr) string {
	var found string
	for pod := range s.podsAt(addr) {
		if pod.OwnSearch || found != "" && found != pod.Namespace {
			return ""
		}
		found = pod.Namespace
	}
	return found
}

// PodAt returns the Pod with the address as NAMESPACE/NAME, or "" if none is known or there are
// several.
func (s *Snapshot) PodAt(addr netip.Addr) string {
	var found string
	for pod := range s.podsAt(addr) {
		if found != "" {
			return ""
		}
		found = podKey(pod.Key)
	}
	return found
}

// IsPod reports whether a Pod with that namespace and name has the address; "" matches any. It does
// not allocate.
func (s *Snapshot) IsPod(addr netip.Addr, namespace, name string) bool {
	for pod := range s.podsAt(addr) {
		if (namespace == "" || namespace == pod.Namespace) && (name == "" || name == pod.Name) {
			return true
		}
	}
	return false
}

// hasPod reports whether a Pod of the namespace has the address.
func (s *Snapshot) hasPod(addr netip.Addr, namespace []byte) bool {
	for pod := range s.podsAt(addr) {
		if pod.Namespace == string(namespace) {
			return true
		}
	}
	return false
}
