package cluster

import (
	"github.com/node-dns/node-dns/internal/dns/zone"
	"github.com/node-dns/node-dns/internal/kube/kubewire"
)

// step is what a source has come to.
type step uint8

const (
	listing   step = iota // a list begins
	comparing             // a list begins that shall only find what the watch has lost
	listed                // object is in the list
	complete              // the list has been read, and is of version
	watching              // the watch stands
	changed               // object is new, or has changed
	deleted               // the object of this key is gone
	reached               // nothing has changed up to version
	broken                // err ended a list or a watch; what follows is another
	rewound               // the server has nothing from after version: it was restored from a backup
)

// report is what a source tells the store, in the order in which it happened.
type report struct {
	source  source
	step    step
	object  kubewire.Object
	version uint64
	err     error
}

// apply puts a report into the store. One of a source that is not watched any more is passed over.
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
		s.counts.events++
		delete(p.suspects, r.object.Key)
		s.change(p, r.object)
		s.reach(p, r.object.Version)
	case deleted:
		s.counts.events++
		delete(p.suspects, r.object.Key)
		s.remove(p.source.kind, r.object.Key)
		s.reach(p, r.object.Version)
	case reached:
		s.reach(p, r.version)
	case broken:
		p.err = r.err
	case rewound:
		s.counts.rewinds++
		p.forgetPosition()
	}
}

// applyListed takes an item of a list. A comparing list is read while no watch stands, which then goes on from where
// it was: what the list has from after that is still to be told, and left alone. What it has from before holds, whatever the
// watch told: the list is as new as the watch, and an object that is older in it comes from a backup.
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
	dropped, drops := s.counts.dropped, p.drops
	changed := s.set(p, o)
	if !changed { // what is dropped again was counted
		s.counts.dropped, p.drops = dropped, drops
	}
	s.recordLost(p, changed)
}

// applyComplete ends a list: what it did not have is gone. After a comparing list it may also be that the watch is
// still to tell so; what it has not told when it is past the list's version it never will.
func (s *store) applyComplete(p *progress, version uint64) {
	s.counts.lists++
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

// reach says that everything up to version has been told.
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

// forgetPosition forgets which version p's objects are of: those that are to come may be lower, and no less true.
func (p *progress) forgetPosition() {
	p.position, p.suspects = 0, nil
}

func (s *store) recordLost(p *progress, changed bool) {
	if changed {
		s.counts.lost++
		p.lost++
	}
}
