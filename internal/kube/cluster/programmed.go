package cluster

import (
	"time"

	"github.com/node-dns/node-dns/internal/dns/zone"
	"github.com/node-dns/node-dns/internal/kube/kubewire"
)

const (
	// maxAwaited bounds the changes that wait for the next Snapshot to be timed: 56 octets each.
	maxAwaited = 4096
	// maxProgramming is the longest time that is believed. A server tells a watch of the last minutes, and then 410. More is a
	// clock in another zone, or a controller that has just started: it gives the age of the Service as the time of what it finds
	// changed, which may be years (k8s.io/endpointslice/util, TriggerTimeTracker).
	maxProgramming = time.Hour
)

// Outcome says whether a change was timed, and if not why.
type Outcome uint8

// The outcomes.
const (
	Timed  Outcome = iota
	Future         // not: it is to happen yet, by our clock
	Past           // not: it happened before the Watcher was made, or so long ago that this is no time that it took
	Many           // not: too many changes waited for one Snapshot
)

// Programmed is a change of the slices of a Service that is published, and how long that took: from when it happened to the
// Service or to a Pod behind it, as who wrote the slice said. That is what Kubernetes calls the DNS programming latency. Real
// controllers say it to the second, rounded down.
type Programmed struct {
	Outcome  Outcome
	Headless bool          // the Service; of Many: false
	Took     time.Duration // of Timed; else 0
	Slices   uint64        // that changed so; one but for Many
}

// awaited is a change that is timed when the Snapshot with it is published.
type awaited struct {
	service zone.Key
	at      time.Time // when it happened
}

// change stores an object that a watch tells of, and has it timed when it is new to DNS and says when that happened which it was
// written for. Who writes a slice for another reason, as for a label, leaves the time that stands there.
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

// triggerMark tells times apart in the four octets that an entry has to spare. 0: there is none.
func triggerMark(at time.Time) uint32 {
	if at.IsZero() {
		return 0
	}
	return max(1, uint32(uint64(at.UnixNano())*0x9e3779b97f4a7c15>>32))
}

// programmed is what became of a change of a Service that was published now; false: it is of none that is timed. Nobody but a
// controller knows the time of a change, and that writes no slices without a selector. since is how long the Watcher exists.
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

// tellProgrammed tells of the changes that are in the Snapshot which was published now.
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
