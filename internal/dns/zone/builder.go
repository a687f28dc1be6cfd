package zone

import (
	"net/netip"
	"slices"
	"strconv"
	"time"
)

// Builder makes successive Snapshots from the objects of the Kubernetes API, as they are added,
// changed and deleted. A change costs work in proportion to the object, and the next Snapshot
// copies only what changed. The zero Builder has no objects. It is not safe for concurrent use; its
// Snapshots are.
//
// Objects may arrive in any order, for example a Slice before its Service. Each Set and Delete
// method reports whether anything changed that may affect an answer.
type Builder struct {
	services   tableBuilder[*view]     // by viewKey
	namespaces tableBuilder[namespace] // by label
	addrs      addrBuilder             // of ClusterIPs and endpoints; to viewKeys
	pods       tableBuilder[member]    // by podKey
	podAddrs   addrBuilder             // to podKeys
	serviceOf  map[Key]string          // viewKey of each Slice
	counts     Counts
	imports    *Builder  // see Imports; nil if the API has no ServiceImports
	zone       string    // see SetZone
	last       *Snapshot // nil after a change
	drafts     []*view   // views that no Snapshot has yet

	gone, come []netip.Addr // buffers of reindex
}

// namespace is what is known of a namespace. It exists as long as its object does, or as long as it
// has a Service or Pod: then its name is an empty non-terminal (RFC 8020).
type namespace struct {
	object         bool
	services, pods int
}

// Counts are the numbers of objects in a Snapshot. Endpoints counts the endpoints of all slices,
// ready or not. Imports counts ServiceImports.
type Counts struct{ Services, Slices, Endpoints, Namespaces, Pods, Imports int }

// Snapshot returns the current state. at is the time of its newest change, for the serial number of
// the zone. Without a change since the previous call, it returns the same Snapshot.
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
		for _, v := range b.drafts {
			v.isDraft = false
		}
		b.drafts = nil
	}
	return b.last
}

// SetZone sets the topology zone of this node; "" means unknown.
func (b *Builder) SetZone(zone string) (changed bool) {
	if b.zone == zone {
		return false
	}
	b.zone, b.last = zone, nil
	return true
}

// Imports returns the Builder for imports from other clusters. ServiceImports are Services in it,
// and Slices come from Slice.Imported. It returns nil if the API has no ServiceImports; see
// SetImports.
func (b *Builder) Imports() *Builder { return b.imports }

// SetImports sets whether the API has ServiceImports. Without them, it drops all imports.
func (b *Builder) SetImports(has bool) {
	switch {
	case !has:
		b.imports = nil
	case b.imports == nil:
		b.imports = new(Builder)
	}
}

// SetService adds s or replaces the Service with the same name. It ignores a Service whose name is
// not a valid label.
func (b *Builder) SetService(s *Service) (changed bool) {
	if !isLabel(s.Name) || !isLabel(s.Namespace) {
		return false
	}
	return b.setService(viewKey(s.Key), s)
}

// DeleteService removes the Service. A missing one is not a change.
func (b *Builder) DeleteService(key Key) (changed bool) {
	if !isLabel(key.Name) || !isLabel(key.Namespace) {
		return false
	}
	return b.setService(viewKey(key), nil)
}

func (b *Builder) setService(key string, s *Service) (changed bool) {
	v := b.view(key)
	before := v.svc
	if s.equal(before) {
		return false
	}
	v = b.draft(v)
	v.svc = s
	v.repeats += b.reindex(v.number, clusterIPs(b.gone, before), clusterIPs(b.come, s))
	b.put(v)
	added := count(s) - count(before)
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

// SetSlice adds s or replaces the Slice with the same name. It removes a Slice without a Service,
// because no name depends on it.
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

// DeleteSlice removes the Slice. A missing one is not a change.
func (b *Builder) DeleteSlice(key Key) (changed bool) {
	service, known := b.serviceOf[key]
	if known {
		b.setSlice(b.view(service), key.Name, nil)
		delete(b.serviceOf, key)
	}
	return known
}

// setSlice replaces the slice of v with that name by s, or removes it if s is nil.
func (b *Builder) setSlice(v *view, name string, s *slice) {
	before := v.slice(name)
	v = b.draft(v)
	v.setSlice(name, s)
	v.repeats += b.reindex(v.number, before.addrs(b.gone), s.addrs(b.come))
	b.put(v)
	b.counts.Slices += s.objects() - before.objects()
	b.counts.Endpoints += s.size() - before.size()
}

// SetEndpoints adds or replaces a core/v1 Endpoints. SetEndpoints sets the Name and Service of the
// subsets, which become Slices named NAME/0, NAME/1 and so on; no API object has such a name.
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

// DeleteEndpoints removes a core/v1 Endpoints. A missing one is not a change.
func (b *Builder) DeleteEndpoints(key Key) (changed bool) { return b.SetEndpoints(key, nil) }

func endpointsSlice(endpoints Key, i int) Key {
	return Key{endpoints.Namespace, endpoints.Name + "/" + strconv.Itoa(i)}
}

// view returns the view with that key, or a new one without a Service and slices.
func (b *Builder) view(key string) *view {
	if v := b.services.get(key); v != nil {
		return v
	}
	return &view{key: key}
}

// draft returns v, or a copy if a Snapshot has v, to be changed and passed to put.
func (b *Builder) draft(v *view) *view {
	if v.isDraft {
		return v
	}
	next := *v
	next.slices, next.isDraft = slices.Clone(v.slices), true
	if next.number == 0 {
		next.number = b.addrs.number(v.key)
	}
	b.drafts = append(b.drafts, &next)
	return &next
}

// put replaces the view with v's key.
func (b *Builder) put(v *view) {
	b.last = nil
	if v.svc == nil && len(v.slices) == 0 {
		b.services.delete(v.key)
		b.addrs.forget(v.number)
		return
	}
	b.services.set(v.key, v)
}

// reindex adds the view with that number to the addresses in come and removes it from those in
// gone. It returns the change of the view's repeats. It keeps both slices for reuse.
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

// DeleteNamespace removes a namespace. A missing one is not a change. Its Services stay until they
// are deleted.
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

// SetPod adds p or replaces the Pod with the same name.
func (b *Builder) SetPod(p *Pod) (changed bool) {
	key := podKey(p.Key)
	before := b.pods.get(key)
	if before.Pod != nil && slices.Equal(before.Addrs, p.Addrs) && before.OwnSearch == p.OwnSearch {
		return false
	}
	b.setPod(key, before, p)
	return true
}

// DeletePod removes the Pod. If it is missing, nothing changes.
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

// member is a Pod and its number in the address index. The zero member has no Pod.
type member struct {
	*Pod
	number uint32
}

// has reports whether the Pod has the address, which may be IPv4-mapped.
func (m member) has(addr netip.Addr) bool {
	return m.Pod != nil && slices.ContainsFunc(m.Addrs, func(other netip.Addr) bool { return other.As16() == addr.As16() })
}

// podKey returns the Pod's name for display, NAMESPACE/NAME.
func podKey(pod Key) string { return pod.Namespace + "/" + pod.Name }
