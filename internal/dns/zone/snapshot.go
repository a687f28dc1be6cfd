package zone

import (
	"iter"
	"net/netip"
)

// Snapshot is what is known of the cluster at one moment. It is immutable. A Builder makes it.
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
	zone       string // of this node; "": not known

	imports   *Snapshot // of the ServiceImports; nil: the API has none
	noImports bool      // it has, and they are not known
}

// Stale returns the same objects, known from an earlier run: answers say that they are stale (RFC 8914) and are kept for
// 30 s at most (RFC 8767 section 4).
func (s *Snapshot) Stale() *Snapshot {
	stale := *s
	stale.stale = true
	return &stale
}

// SomePods returns the same objects, of which the Pods are not all that there are: those of a node, or none for want of the
// right. With PodsVerified the names of Pods are SERVFAIL then.
func (s *Snapshot) SomePods() *Snapshot {
	some := *s
	some.somePods = true
	return &some
}

// HasAllPods says whether it is not from SomePods.
func (s *Snapshot) HasAllPods() bool { return !s.somePods }

// Unimported returns the same objects where the API has ServiceImports that are not known: names in ClusterSet are SERVFAIL.
func (s *Snapshot) Unimported() *Snapshot {
	without := *s
	without.noImports = true
	return &without
}

// Imports are the ServiceImports and their Slices, as Services and Slices; nil: the API has none.
func (s *Snapshot) Imports() *Snapshot { return s.imports }

// IsStale says whether it is from Stale.
func (s *Snapshot) IsStale() bool { return s.stale }

// Zone is the topology zone of this node; "": none is known.
func (s *Snapshot) Zone() string { return s.zone }

// Counts says how many objects there are.
func (s *Snapshot) Counts() Counts { return s.counts }

// Services are all Services, in no order.
func (s *Snapshot) Services() iter.Seq[*Service] {
	return func(yield func(*Service) bool) {
		for _, v := range s.services.each {
			if v.svc != nil && !yield(v.svc) {
				return
			}
		}
	}
}

// Slices are all Slices, in no order: those from SetEndpoints by their own names, and those without a Service as well. Each
// is only there until the next one.
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

// Namespaces are the names of all Namespace objects, in no order.
func (s *Snapshot) Namespaces() iter.Seq[string] {
	return func(yield func(string) bool) {
		for name, n := range s.namespaces.each {
			if n.object && !yield(name) {
				return
			}
		}
	}
}

// Pods are all Pods, in no order.
func (s *Snapshot) Pods() iter.Seq[*Pod] {
	return func(yield func(*Pod) bool) {
		for _, m := range s.pods.each {
			if !yield(m.Pod) {
				return
			}
		}
	}
}

// AddrsOf are the addresses of a Pod, which PodAt names; none: it is not known, or has none yet.
func (s *Snapshot) AddrsOf(pod string) []netip.Addr {
	for p := range s.Pods() {
		if podKey(p.Key) == pod {
			return p.Addrs
		}
	}
	return nil
}

// Service returns the Service of that key; nil when there is none.
func (s *Snapshot) Service(key Key) *Service {
	if !isLabel(key.Name) || !isLabel(key.Namespace) {
		return nil
	}
	if v := s.services.get(viewKey(key)); v != nil {
		return v.svc
	}
	return nil
}

// podsAt are the Pods that have the address, in no order.
func (s *Snapshot) podsAt(addr netip.Addr) iter.Seq[*Pod] {
	return func(yield func(*Pod) bool) {
		for _, ref := range s.podAddrs.at(addr) {
			if m := s.pods.get(s.podAddrs.names.of(uint32(ref))); m.has(addr) && !yield(m.Pod) {
				return
			}
		}
	}
}

// SearchNamespace returns the namespace whose search list the Pod has that has the address: "" when none has it or its
// search list is its own, and when Pods that differ there have it, while one goes and another gets its address.
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

// PodAt is the Pod that has the address, as NAMESPACE/NAME; "": none is known, or several are.
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

// IsPod reports whether a Pod of that namespace and name has the address; "" stands for any. It does not allocate.
func (s *Snapshot) IsPod(addr netip.Addr, namespace, name string) bool {
	for pod := range s.podsAt(addr) {
		if (namespace == "" || namespace == pod.Namespace) && (name == "" || name == pod.Name) {
			return true
		}
	}
	return false
}

// hasPod says whether a Pod of the namespace has the address.
func (s *Snapshot) hasPod(addr netip.Addr, namespace []byte) bool {
	for pod := range s.podsAt(addr) {
		if pod.Namespace == string(namespace) {
			return true
		}
	}
	return false
}
