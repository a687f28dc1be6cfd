package cluster

import (
	"cmp"
	"maps"
	"net/http"

	"github.com/node-dns/node-dns/internal/dns/zone"
	"github.com/node-dns/node-dns/internal/kube/kubewire"
)

// maxObjects bounds each kind of object. Current kube-apiservers are tested with 150,000 Pods and
// 10,000 Services.
const maxObjects = 1 << 20

// store is the known state of the cluster: the objects in a zone.Builder, and the source and
// version of each. It only applies reports and does nothing with time or the network. It is not
// safe for concurrent use.
type store struct {
	builder zone.Builder
	limit   int            // of objects of each kind
	room    int            // bytes that all objects may still take, by sizeOf
	share   int            // bytes that the objects of one namespace may take
	taken   map[string]int // bytes that they take, by namespace
	objects [kubewire.ServiceImports + 1]map[zone.Key]entry
	// progress is the progress of the source of each kind.
	progress map[kubewire.Kind]*progress
	podNames bool // names of Pods behind endpoints are kept

	dirty  bool // something that DNS serves has changed since this was last set to false
	totals Totals

	awaited []awaited // changes to be timed since this was last set to nil; at most maxAwaited
	tooMany uint64    // changes over maxAwaited since this was last set to 0
}

type entry struct {
	octets    uint32 // by sizeOf; bounded by kubewire's size limit
	listEpoch uint16 // the epoch of the last list that had it
	trigger   uint32 // triggerMark of its last trigger time; 0 if it never had one
}

type progress struct {
	source   source
	epoch    uint16 // incremented by every list
	position uint64 // version of the source's state in the store; 0 if its objects have several versions
	synced   bool   // the store has had its complete state
	lost     uint64 // as in Totals, since this was last set to 0
	drops    drops  // since this was last set to zero
	err      error  // why it is not watched now; nil if it is, or if no error is known

	comparing bool // the running list only checks what the watch reported
	// suspects are objects missing in a list that checks the watch. Those that the watch has not
	// reported up to version until were lost.
	suspects map[zone.Key]bool
	until    uint64
}

func newStore(f Features) *store {
	s := &store{
		limit: maxObjects, room: maxOctets, share: maxShare, taken: make(map[string]int),
		progress: make(map[kubewire.Kind]*progress), podNames: f.PodNames,
	}
	for kind := range s.objects {
		s.objects[kind] = make(map[zone.Key]entry)
	}
	return s
}

// assign sets the sources and forgets the objects of other sources. An existing source stays as it
// is.
func (s *store) assign(wanted []source) {
	gone := maps.Clone(s.progress)
	for _, w := range wanted {
		delete(gone, w.kind)
		p := s.progress[w.kind]
		switch {
		case p == nil:
			s.progress[w.kind] = &progress{source: w}
		case p.source != w: // another selector: the next list sweeps what it does not select
			s.progress[w.kind] = &progress{source: w, epoch: p.epoch, synced: p.synced}
		}
	}
	for kind := range gone {
		s.sweep(kind, func(entry) bool { return true })
		delete(s.progress, kind)
	}
}

// restart lists every source again, because the known state is another server's.
func (s *store) restart() {
	for _, p := range s.progress {
		p.forgetPosition()
		p.synced = false
	}
}

// optional reports whether the cluster's own names can be answered without p. Pods and Nodes serve
// extra features, which are off without the rights. ServiceImports have their own domain, and may
// be broken like any custom resource.
func (p *progress) optional() bool {
	return p.source.kind == kubewire.ServiceImports || p.isForbidden()
}

// isForbidden reports whether the rights to an extra source are missing.
func (p *progress) isForbidden() bool {
	return p.source.kind >= kubewire.Pods && hasCode(p.err, http.StatusForbidden)
}

// isKnown reports whether the complete state of p has been known, now or earlier. A source whose
// right was revoked is not known: its addresses may be reused.
func (p *progress) isKnown() bool { return (p.synced || p.position > 0) && !p.isForbidden() }

// setImports sets whether the API has ServiceImports. Their slices are among the others, so all
// slices are listed again.
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

func (s *store) hasAllPods() bool {
	p := s.progress[kubewire.Pods]
	return p != nil && p.source.isAllPods() && p.isKnown()
}

// synced reports whether the complete state of every required source has been known.
func (s *store) synced() bool {
	for _, p := range s.progress {
		if !p.synced && !p.optional() {
			return false
		}
	}
	return len(s.progress) > 0
}

// set stores an object that p's source reported, and reports whether that changes anything for DNS.
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
	if why := s.whyNoRoom(o.Key, octets-int(old.octets)); why != nil {
		s.drop(p, o.Key, why)
		if !exists {
			return false
		}
		o.Value, octets = nil, sizeOf(o.Key, nil) // its old value is wrong
	}
	s.take(o.Key, octets-int(old.octets))
	e := entry{
		octets: uint32(octets), listEpoch: p.epoch, trigger: cmp.Or(triggerMark(o.Triggered), old.trigger),
	}
	objects[o.Key] = e
	return s.build(p.source.kind, o.Key, o.Value)
}

func (s *store) remove(kind kubewire.Kind, key zone.Key) (changed bool) {
	old, exists := s.objects[kind][key]
	if !exists {
		return false
	}
	delete(s.objects[kind], key)
	s.take(key, -int(old.octets))
	return s.build(kind, key, nil)
}

// sweep removes the objects of a kind for which gone returns true.
func (s *store) sweep(kind kubewire.Kind, gone func(entry) bool) {
	for key, e := range s.objects[kind] {
		if gone(e) {
			s.remove(kind, key)
		}
	}
}

// build passes an object's value to the Builder. Nil removes it.
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

// trim removes Pod names from value unless podNames is set.
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
