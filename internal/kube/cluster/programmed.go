package cluster

import (
	"time"

	"github.com/node-dns/node-dns/internal/dns/zone"
	"github.com/node-dns/node-dns/internal/kube/kubewire"
)

const (
	// maxAwaited bounds the changes that wait for the next Snapshot to be timed, at 56 bytes each.
	maxAwaited = 4096
	// maxProgramming is the longest plausible time. A server sends a watch the events of the last
	// minutes, and then 410. A longer time comes from a clock in another time zone, or from a
	// controller that has just started: it sets the creation time of the Service on everything that
	// it finds changed, which may be years ago (k8s.io/endpointslice/util, TriggerTimeTracker).
	maxProgramming = time.Hour
)

// Outcome reports whether a change was timed, and if not, why.
type Outcome uint8

// Outcomes of a change.
const (
	Timed  Outcome = iota
	Future         // not timed: in the future by our clock
	Past           // not timed: before the Watcher was made, or more than maxProgramming ago
	Many           // not timed: too many changes waited for one Snapshot
)

// Programmed is a published change of a Service's slices and its DNS programming latency in the
// Kubernetes sense: the time since the Service, or a Pod behind it, changed according to the writer
// of the slice. Real controllers give that time in whole seconds, rounded down.
type Programmed struct {
	Outcome  Outcome
	Headless bool          // whether the Service is headless; false for Many
	Took     time.Duration // set for Timed; else 0
	Slices   uint64        // number of changed slices; 1 except for Many
}

// awaited is a change to be timed when its Snapshot is published.
type awaited struct {
	service zone.Key
	at      time.Time // when it happened
}

// change stores an object that a watch reported. It queues the change for timing if it affects DNS
// and its trigger time is new. A writer that updates a slice for another reason, such as a label,
// leaves the old trigger time in place.
func (s *store) change(p *progress, o kubewire.Object) {
	before := s.objects[p.source.kind][o.Key].trigger
	changed := s.set(p, o)
	slice, isSlice := o.Value.(*zone.Slice)
	if now := triggerMark(o.Triggered); !changed || !isSlice || now == 0 || now == before {
		return
	}
	if len(s.awaited) >= maxAwaited {
		s.tooMany++
		return
	}
	s.awaited = append(s.awaited, awaited{zone.Key{Namespace: slice.Namespace, Name: slice.Service}, o.Triggered})
}

// triggerMark hashes a time into the four spare bytes of an entry. 0 means no time.
func triggerMark(at time.Time) uint32 {
	if at.IsZero() {
		return 0
	}
	return max(1, uint32(uint64(at.UnixNano())*0x9e3779b97f4a7c15>>32))
}

// programmed returns the outcome of a Service change that is published now, and false if the
// Service is not timed. Only a controller knows the time of a change, and controllers write no
// slices for Services without a selector. since is the age of the Watcher.
func programmed(of *zone.Service, at, now time.Time, since time.Duration) (Programmed, bool) {
	if of == nil || of.Kind == zone.ExternalName || !of.HasSelector {
		return Programmed{}, false
	}
	p := Programmed{Headless: of.Kind == zone.Headless, Slices: 1}
	switch took := now.Sub(at); {
	case took < 0:
		p.Outcome = Future
	case took > min(since, maxProgramming):
		p.Outcome = Past
	default:
		p.Took = took
	}
	return p, true
}

// tellProgrammed reports the changes in the Snapshot that was just published.
func (o *owner) tellProgrammed(published *zone.Snapshot, now time.Time) {
	changes, many := o.store.awaited, o.store.tooMany
	o.store.awaited, o.store.tooMany = nil, 0
	tell := o.w.config.Programmed
	if tell == nil {
		return
	}
	for _, c := range changes {
		if p, ok := programmed(published.Service(c.service), c.at, now, now.Sub(o.w.made)); ok {
			tell(p)
		}
	}
	if many > 0 {
		tell(Programmed{Outcome: Many, Slices: many})
	}
}
