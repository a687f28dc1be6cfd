package cluster

import (
	"cmp"
	"maps"
	"net/http"

	"github.com/node-dns/node-dns/internal/dns/zone"
	"github.com/node-dns/node-dns/internal/kube/kubewire"
)

// maxObjects bounds each kind of object. A kube-apiserver of today is tested with 150,000 Pods and 10,000 Services.
const maxObjects = 1 << 20

// store is what is known of the cluster: the objects in a zone.Builder, and of each who told of it and when. It
// decides nothing about time or the network: reports go in. It is for one goroutine.
type store struct {
	builder zone.Builder
	limit   int // of objects of each kind
	room    int // octets that all objects may still take, by sizeOf
	objects [kubewire.ServiceImports + 1]map[zone.Key]entry
	// progress is how far the source of each kind has come.
	progress map[kubewire.Kind]*progress
	podNames bool // those of endpoints are kept

	dirty  bool // something that DNS sees has changed since this was last set to false
	counts counts

	awaited []awaited // changes since this was last set to nil that are to be timed; at most maxAwaited
	tooMany uint64    // those beyond, since this was last set to 0
}

// counts are kept since the start.
type counts struct {
	events  uint64 // told by watches
	lists   uint64 // that were read to their end
	lost    uint64 // objects that a comparing list found to be otherwise than the watch had told
	dropped uint64 // objects that were too big, or for which there was no room
	rewinds uint64 // times that the server's state was older than what it had told before
}

// entry is what is known of an object besides its value.
type entry struct {
	octets    uint32 // by sizeOf; at most what kubewire lets one have
	listEpoch uint16 // the epoch of the last list that had it
	trigger   uint32 // the triggerMark of the last time that it has had; 0: it never had one
}

// progress is how far a source has come.
type progress struct {
	source   source
	epoch    uint16 // raised by every list
	position uint64 // what the store has of the source is its state at this version; 0: of no one version
	synced   bool   // the store has had its whole state
	lost     uint64 // as in counts, since this was last set to 0
	drops    drops  // since this was last set to zero
	err      error  // why it is not watched at the moment; nil: it is, or nothing is known against it

	comparing bool // the list under way only checks what the watch has told
	// suspects are objects that a comparing list did not have. What has not been told of until version until was lost.
	suspects map[zone.Key]bool
	until    uint64
}

func newStore(f Features) *store {
	s := &store{limit: maxObjects, room: maxOctets, progress: make(map[kubewire.Kind]*progress), podNames: f.PodNames}
	for kind := range s.objects {
		s.objects[kind] = make(map[zone.Key]entry)
	}
	return s
}

// assign makes these the sources, and forgets what other sources told of. A source that was there stays as it is.
func (s *store) assign(wanted []source) {
	gone := maps.Clone(s.progress)
	for _, w := range wanted {
		delete(gone, w.kind)
		p := s.progress[w.kind]
		switch {
		case p == nil:
			s.progress[w.kind] = &progress{source: w}
		case p.source != w: // another selector: what it does not select is swept when it has been listed
			s.progress[w.kind] = &progress{source: w, epoch: p.epoch, synced: p.synced}
		}
	}
	for kind := range gone {
		s.sweep(kind, func(entry) bool { return true })
		delete(s.progress, kind)
	}
}

// restart has every source listed anew: what is known is another server's.
func (s *store) restart() {
	for _, p := range s.progress {
		p.forgetPosition()
		p.synced = false
	}
}

// optional reports whether the cluster's own names can be answered without p: Pods and Nodes serve what is extra, and are done
// without where the rights are missing; ServiceImports have a domain of their own, and may be broken as any custom resource may.
func (p *progress) optional() bool {
	return p.source.kind == kubewire.ServiceImports || p.isForbidden()
}

// isForbidden reports whether the rights to what is extra are missing.
func (p *progress) isForbidden() bool {
	return p.source.kind >= kubewire.Pods && hasCode(p.err, http.StatusForbidden)
}

// isKnown reports whether the whole state of p has been here, maybe before. That of a right that was taken away is not known:
// what there was becomes others'.
func (p *progress) isKnown() bool { return (p.synced || p.position > 0) && !p.isForbidden() }

// setImports says whether the API has ServiceImports. Their slices come with the others, so all slices are listed again.
func (s *store) setImports(has bool) {
	if has == (s.builder.Imports() != nil) {
		return
	}
	s.builder.SetImports(has)
	if p := s.progress[kubewire.EndpointSlices]; p != nil && has {
		p.forgetPosition()
	}
	s.dirty = true
}

// lacksImports reports whether the API has ServiceImports that are not known.
func (s *store) lacksImports() bool {
	p, slices := s.progress[kubewire.ServiceImports], s.progress[kubewire.EndpointSlices]
	return s.builder.Imports() != nil && (p == nil || !p.isKnown() || slices == nil || slices.position == 0)
}

// hasAllPods reports whether every Pod is known.
func (s *store) hasAllPods() bool {
	p := s.progress[kubewire.Pods]
	return p != nil && p.source.isAllPods() && p.isKnown()
}

// synced reports whether the whole state of every source has been here.
func (s *store) synced() bool {
	for _, p := range s.progress {
		if !p.synced && !p.optional() {
			return false
		}
	}
	return len(s.progress) > 0
}

// set stores an object that p's source told of, and reports whether that changes anything for DNS.
func (s *store) set(p *progress, o kubewire.Object) (changed bool) {
	objects := s.objects[p.source.kind]
	old, exists := objects[o.Key]
	switch {
	case o.TooBig != nil:
		s.drop(p, o.Key, o.TooBig)
	case !exists && len(objects) >= s.limit:
		s.drop(p, o.Key, errManyObjects)
		return false
	}
	s.trim(o.Value)
	octets := sizeOf(o.Key, o.Value)
	if octets > s.room+int(old.octets) {
		s.drop(p, o.Key, errNoRoom)
		if !exists {
			return false
		}
		o.Value, octets = nil, sizeOf(o.Key, nil) // what it was before is wrong
	}
	s.room -= octets - int(old.octets)
	e := entry{
		octets: uint32(octets), listEpoch: p.epoch, trigger: cmp.Or(triggerMark(o.Triggered), old.trigger),
	}
	objects[o.Key] = e
	return s.build(p.source.kind, o.Key, o.Value)
}

// remove takes an object away.
func (s *store) remove(kind kubewire.Kind, key zone.Key) (changed bool) {
	old, exists := s.objects[kind][key]
	if !exists {
		return false
	}
	delete(s.objects[kind], key)
	s.room += int(old.octets)
	return s.build(kind, key, nil)
}

// sweep removes those objects of a kind that are gone.
func (s *store) sweep(kind kubewire.Kind, gone func(entry) bool) {
	for key, e := range s.objects[kind] {
		if gone(e) {
			s.remove(kind, key)
		}
	}
}

// build has the Builder know the value of an object; nil: none.
func (s *store) build(kind kubewire.Kind, key zone.Key, value any) (changed bool) {
	imports := s.builder.Imports()
	switch v := value.(type) {
	case *zone.Service:
		if kind == kubewire.ServiceImports {
			changed = imports != nil && imports.SetService(v)
		} else {
			changed = s.builder.SetService(v)
		}
	case *zone.Slice:
		changed = s.builder.SetSlice(v)
		if imports != nil {
			changed = imports.SetSlice(v.Imported()) || changed
		}
	case []zone.Slice:
		changed = s.builder.SetEndpoints(key, v)
	case *zone.Pod:
		changed = s.builder.SetPod(v)
	case kubewire.Namespace:
		changed = s.builder.SetNamespace(key.Name)
	case kubewire.Node:
		changed = s.builder.SetZone(v.Zone)
	default:
		changed = s.unbuild(kind, key)
	}
	s.dirty = s.dirty || changed
	return changed
}

func (s *store) unbuild(kind kubewire.Kind, key zone.Key) (changed bool) {
	imports := s.builder.Imports()
	switch kind {
	case kubewire.Services:
		return s.builder.DeleteService(key)
	case kubewire.ServiceImports:
		return imports != nil && imports.DeleteService(key)
	case kubewire.EndpointSlices:
		changed = s.builder.DeleteSlice(key)
		return imports != nil && imports.DeleteSlice(key) || changed
	case kubewire.Endpoints:
		return s.builder.DeleteEndpoints(key)
	case kubewire.Pods:
		return s.builder.DeletePod(key)
	case kubewire.Nodes:
		return s.builder.SetZone("")
	default:
		return s.builder.DeleteNamespace(key.Name)
	}
}

// trim takes the names of Pods out of an object, unless they are kept.
func (s *store) trim(value any) {
	if s.podNames {
		return
	}
	forget := func(slice *zone.Slice) {
		for i := range slice.Endpoints {
			slice.Endpoints[i].Pod = ""
		}
	}
	switch v := value.(type) {
	case *zone.Slice:
		forget(v)
	case []zone.Slice:
		for i := range v {
			forget(&v[i])
		}
	}
}
