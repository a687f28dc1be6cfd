package zone

import (
	"net/netip"
	"slices"
	"strconv"
	"time"
)

// Builder makes Snapshots, one after the other, from the objects of the Kubernetes API as they come, change and go. A
// change costs work in proportion to the object, and the next Snapshot copies only what it touched. The zero Builder
// knows no object. It is not safe for concurrent use; its Snapshots are.
//
// The objects may come in any order, a Slice before its Service as well. Each Set and Delete says whether anything
// changed that an answer may depend on.
type Builder struct {
	services   tableBuilder[*view]     // by viewKey
	namespaces tableBuilder[namespace] // by label
	addrs      addrBuilder             // of ClusterIPs and endpoints, to viewKeys
	pods       tableBuilder[member]    // by podKey
	podAddrs   addrBuilder             // to podKeys
	serviceOf  map[Key]string          // the viewKey of each Slice
	counts     Counts
	imports    *Builder  // see Imports; nil: the API has no ServiceImports
	zone       string    // see SetZone
	last       *Snapshot // nil: there was a change since

	gone, come []netip.Addr // for reindex to write to
}

// namespace is what is known of a namespace: it exists while the object does, and while a Service or Pod is in it, above
// whose name is an empty non-terminal then (RFC 8020).
type namespace struct {
	object         bool
	services, pods int
}

// Counts are how many objects a Snapshot has. Endpoints are those of all slices, ready or not; Imports are ServiceImports.
type Counts struct{ Services, Slices, Endpoints, Namespaces, Pods, Imports int }

// Snapshot returns what is known now. at is the time of the newest change in it, for the serial number of the zone;
// without a change since the one before it returns that one.
func (b *Builder) Snapshot(at time.Time) *Snapshot {
	var imports *Snapshot
	if b.imports != nil {
		imports = b.imports.Snapshot(at)
	}
	if b.last == nil || b.last.imports != imports {
		b.last = &Snapshot{
			services:   b.services.freeze(),
			namespaces: b.namespaces.freeze(),
			addrs:      b.addrs.freeze(),
			pods:       b.pods.freeze(),
			podAddrs:   b.podAddrs.freeze(),
			imports:    imports,
			zone:       b.zone,
			counts:     b.counts,
			serial:     uint32(at.Unix()),
		}
		if imports != nil {
			b.last.counts.Imports = imports.counts.Services
		}
	}
	return b.last
}

// SetZone says in which topology zone this node is; "": none is known.
func (b *Builder) SetZone(zone string) (changed bool) {
	if b.zone == zone {
		return false
	}
	b.zone, b.last = zone, nil
	return true
}

// Imports returns the Builder of what is imported from other clusters: ServiceImports are Services there, and Slices are those that
// Slice.Imported returns. nil: this API has no ServiceImports, see SetImports.
func (b *Builder) Imports() *Builder { return b.imports }

// SetImports says whether the API has ServiceImports. Where it has none, what is known of them is forgotten.
func (b *Builder) SetImports(has bool) {
	switch {
	case !has:
		b.imports = nil
	case b.imports == nil:
		b.imports = new(Builder)
	}
}

// SetService adds s, or replaces the Service of its name. One whose name cannot be a label is not taken.
func (b *Builder) SetService(s *Service) (changed bool) {
	if !isLabel(s.Name) || !isLabel(s.Namespace) {
		return false
	}
	return b.setService(viewKey(s.Key), s)
}

// DeleteService takes the Service out; one that is not there is no change.
func (b *Builder) DeleteService(key Key) (changed bool) {
	if !isLabel(key.Name) || !isLabel(key.Namespace) {
		return false
	}
	return b.setService(viewKey(key), nil)
}

func (b *Builder) setService(key string, s *Service) (changed bool) {
	v := b.view(key)
	if s.equal(v.svc) {
		return false
	}
	next := b.change(v)
	next.svc = s
	next.repeats += b.reindex(next.number, clusterIPs(b.gone, v.svc), clusterIPs(b.come, s))
	b.put(next)
	added := count(s) - count(v.svc)
	b.counts.Services += added
	if added != 0 {
		b.setNamespace(v.namespace(), func(n *namespace) { n.services += added })
	}
	return true
}

func clusterIPs(addrs []netip.Addr, s *Service) []netip.Addr {
	addrs = addrs[:0]
	if s != nil {
		addrs = append(addrs, s.ClusterIPs...)
	}
	return addrs
}

func count(s *Service) int {
	if s == nil {
		return 0
	}
	return 1
}

// SetSlice adds s, or replaces the Slice of its name. One without a Service is taken out: nothing is named after it.
func (b *Builder) SetSlice(s *Slice) (changed bool) {
	if !isLabel(s.Service) || !isLabel(s.Namespace) {
		return b.DeleteSlice(s.Key)
	}
	key := viewKey(Key{s.Namespace, s.Service})
	before, known := b.serviceOf[s.Key]
	if known && before != key {
		b.DeleteSlice(s.Key)
	}
	packed := newSlice(s)
	if v := b.view(key); !packed.equal(v.slice(s.Name)) {
		b.setSlice(v, s.Name, packed)
		if b.serviceOf == nil {
			b.serviceOf = map[Key]string{}
		}
		b.serviceOf[s.Key] = key
		return true
	}
	return false
}

// DeleteSlice takes the Slice out; one that is not there is no change.
func (b *Builder) DeleteSlice(key Key) (changed bool) {
	service, known := b.serviceOf[key]
	if known {
		b.setSlice(b.view(service), key.Name, nil)
		delete(b.serviceOf, key)
	}
	return known
}

// setSlice has v go on with s in the place of the slice of that name, or without one.
func (b *Builder) setSlice(v *view, name string, s *slice) {
	before := v.slice(name)
	next := b.change(v)
	if s == nil {
		next.slices = v.without(name)
	} else {
		next.slices = v.with(s)
	}
	next.repeats += b.reindex(next.number, before.addrs(b.gone), s.addrs(b.come))
	b.put(next)
	b.counts.Slices += s.objects() - before.objects()
	b.counts.Endpoints += s.size() - before.size()
}

// SetEndpoints adds a core/v1 Endpoints, or replaces it: the subsets, whose Name and Service are set here, become Slices
// named NAME/0, NAME/1, …, as no API object is.
func (b *Builder) SetEndpoints(key Key, subsets []Slice) (changed bool) {
	for i := range subsets {
		subset := subsets[i]
		subset.Key, subset.Service = endpointsSlice(key, i), key.Name
		changed = b.SetSlice(&subset) || changed
	}
	for i := len(subsets); b.DeleteSlice(endpointsSlice(key, i)); i++ {
		changed = true
	}
	return changed
}

// DeleteEndpoints takes a core/v1 Endpoints out; one that is not there is no change.
func (b *Builder) DeleteEndpoints(key Key) (changed bool) { return b.SetEndpoints(key, nil) }

func endpointsSlice(endpoints Key, i int) Key {
	return Key{endpoints.Namespace, endpoints.Name + "/" + strconv.Itoa(i)}
}

// view returns the view of that key; a new one without a Service and slices when there is none.
func (b *Builder) view(key string) *view {
	if v := b.services.get(key); v != nil {
		return v
	}
	return &view{key: key}
}

// change returns a copy of v to be changed and put.
func (b *Builder) change(v *view) *view {
	next := *v
	if next.number == 0 {
		next.number = b.addrs.number(v.key)
	}
	return &next
}

// put replaces the view of v's key.
func (b *Builder) put(v *view) {
	b.last = nil
	if v.svc == nil && len(v.slices) == 0 {
		b.services.delete(v.key)
		b.addrs.forget(v.number)
		return
	}
	b.services.set(v.key, v)
}

// reindex has the view of that number at the addresses of come, and no more at those of gone. It returns by how many its
// repeats change. It keeps both slices for the next time.
func (b *Builder) reindex(number uint32, gone, come []netip.Addr) (repeats int) {
	b.gone, b.come = gone, come
	slices.SortFunc(gone, netip.Addr.Compare)
	slices.SortFunc(come, netip.Addr.Compare)
	for len(gone)+len(come) > 0 {
		switch {
		case len(come) == 0 || len(gone) > 0 && gone[0].Less(come[0]):
			if b.addrs.remove(gone[0], number) {
				repeats--
			}
			gone = gone[1:]
		case len(gone) == 0 || come[0].Less(gone[0]):
			if b.addrs.add(come[0], number) {
				repeats++
			}
			come = come[1:]
		default:
			gone, come = gone[1:], come[1:]
		}
	}
	return repeats
}

// SetNamespace adds a namespace.
func (b *Builder) SetNamespace(name string) (changed bool) {
	return b.setNamespace(name, func(n *namespace) { n.object = true })
}

// DeleteNamespace takes a namespace out; one that is not there is no change. Its Services stay until they are deleted.
func (b *Builder) DeleteNamespace(name string) (changed bool) {
	return b.setNamespace(name, func(n *namespace) { n.object = false })
}

func (b *Builder) setNamespace(name string, change func(*namespace)) (changed bool) {
	if !isLabel(name) {
		return false
	}
	before := b.namespaces.get(name)
	after := before
	change(&after)
	if after == before {
		return false
	}
	b.last = nil
	if after == (namespace{}) {
		b.namespaces.delete(name)
	} else {
		b.namespaces.set(name, after)
	}
	switch {
	case after.object && !before.object:
		b.counts.Namespaces++
	case before.object && !after.object:
		b.counts.Namespaces--
	}
	return true
}

// SetPod adds p, or replaces the Pod of its name.
func (b *Builder) SetPod(p *Pod) (changed bool) {
	key := podKey(p.Key)
	before := b.pods.get(key)
	if before.Pod != nil && slices.Equal(before.Addrs, p.Addrs) && before.OwnSearch == p.OwnSearch {
		return false
	}
	b.setPod(key, before, p)
	return true
}

// DeletePod takes the Pod out; one that is not there is no change.
func (b *Builder) DeletePod(key Key) (changed bool) {
	before := b.pods.get(podKey(key))
	if before.Pod == nil {
		return false
	}
	b.setPod(podKey(key), before, nil)
	return true
}

func (b *Builder) setPod(key string, before member, after *Pod) {
	b.last = nil
	if before.Pod != nil {
		b.counts.Pods--
		b.setNamespace(before.Namespace, func(n *namespace) { n.pods-- })
		b.pods.delete(key)
		for _, addr := range before.Addrs {
			b.podAddrs.remove(addr, before.number)
		}
		b.podAddrs.forget(before.number)
	}
	if after != nil {
		b.counts.Pods++
		b.setNamespace(after.Namespace, func(n *namespace) { n.pods++ })
		m := member{after, b.podAddrs.number(key)}
		b.pods.set(key, m)
		for _, addr := range after.Addrs {
			b.podAddrs.add(addr, m.number)
		}
	}
}

// member is a Pod with its number in the index of addresses. The zero member has no Pod.
type member struct {
	*Pod
	number uint32
}

// has says whether it has the address, which may be IPv4-mapped.
func (m member) has(addr netip.Addr) bool {
	return m.Pod != nil && slices.ContainsFunc(m.Addrs, func(other netip.Addr) bool { return other.As16() == addr.As16() })
}

// podKey is a Pod as it is named to people.
func podKey(pod Key) string { return pod.Namespace + "/" + pod.Name }
