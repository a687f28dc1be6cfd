package cluster

import (
	"github.com/node-dns/node-dns/internal/dns/zone"
	"github.com/node-dns/node-dns/internal/kube/kubewire"
)

// step is the kind of a report.
type step uint8

const (
	listing   step = iota // a list begins
	comparing             // a list begins that only checks for changes that the watch lost
	listed                // object is in the list
	complete              // the list is complete, as of version
	watching              // the watch is established
	changed               // object is new, or has changed
	deleted               // the object with this key was deleted
	reached               // nothing has changed up to version
	broken                // err ended a list or a watch; another one follows
	rewound               // the server has nothing after version: it was restored from a backup
)

// report is an event of a source, passed to the store in order.
type report struct {
	source  source
	step    step
	object  kubewire.Object
	version uint64
	err     error
}

// apply applies a report to the store. It ignores reports of a source that is no longer watched.
func (s *store) apply(r report) {
	p := s.progress[r.source.kind]
	if p == nil || p.source != r.source {
		return
	}
	switch r.step {
	case listing, comparing:
		p.epoch++
		p.comparing = r.step == comparing
		p.suspects = nil
	case listed:
		s.applyListed(p, r.object)
	case complete:
		s.applyComplete(p, r.version)
	case watching:
		p.synced, p.err = p.position > 0, nil
	case changed:
		s.totals.Events++
		delete(p.suspects, r.object.Key)
		s.change(p, r.object)
		s.reach(p, r.object.Version)
	case deleted:
		s.totals.Events++
		delete(p.suspects, r.object.Key)
		s.remove(p.source.kind, r.object.Key)
		s.reach(p, r.object.Version)
	case reached:
		s.reach(p, r.version)
	case broken:
		p.err = r.err
	case rewound:
		s.totals.Rewinds++
		p.forgetPosition()
	}
}

// applyListed applies one item of a list. A list that checks the watch is read between two watches,
// and the next watch resumes at the old position. So list items newer than that position are left
// to the watch. Older items hold, whatever the watch reported: the list is as new as the watch, and
// an object that is older in it comes from a backup.
func (s *store) applyListed(p *progress, o kubewire.Object) {
	objects := s.objects[p.source.kind]
	old, exists := objects[o.Key]
	if !p.comparing {
		s.set(p, o)
		return
	}
	if exists {
		old.listEpoch = p.epoch
		objects[o.Key] = old
	}
	if o.Version > p.position {
		return
	}
	dropped, drops := s.totals.Dropped, p.drops
	changed := s.set(p, o)
	if !changed { // the object was dropped again, and counted before
		s.totals.Dropped, p.drops = dropped, drops
	}
	s.recordLost(p, changed)
}

// applyComplete ends a list: objects that it did not have are deleted. After a list that checks the
// watch, the watch may still report the deletion. If it has not when it has passed the list's
// version, the event was lost.
func (s *store) applyComplete(p *progress, version uint64) {
	s.totals.Lists++
	unseen := func(e entry) bool { return e.listEpoch != p.epoch }
	if !p.comparing {
		s.sweep(p.source.kind, unseen)
		p.position, p.synced, p.err = version, true, nil
		return
	}
	p.comparing = false
	p.until, p.suspects = version, make(map[zone.Key]bool)
	for key, e := range s.objects[p.source.kind] {
		if unseen(e) {
			p.suspects[key] = true
		}
	}
	s.reach(p, p.position)
}

// reach records that everything up to version has been reported.
func (s *store) reach(p *progress, version uint64) {
	p.position = max(p.position, version)
	if p.suspects == nil || p.position < p.until {
		return
	}
	for key := range p.suspects {
		s.recordLost(p, s.remove(p.source.kind, key))
	}
	p.suspects = nil
}

// forgetPosition resets the version of p's objects. Later versions may be lower and are equally
// valid.
func (p *progress) forgetPosition() {
	p.position, p.suspects = 0, nil
}

func (s *store) recordLost(p *progress, changed bool) {
	if changed {
		s.totals.Lost++
		p.lost++
	}
}
