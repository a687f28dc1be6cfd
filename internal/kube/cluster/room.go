package cluster

import (
	"errors"
	"net/netip"

	"github.com/node-dns/node-dns/internal/dns/zone"
)

const (
	// maxOctets bounds the memory of all objects, by sizeOf. It is ten times the need of a cluster
	// with 10,000 Services and 100,000 endpoints. The daemon's unit allows 512 MiB.
	maxOctets = 128 << 20
	// maxShare bounds the memory of the objects of one namespace. Anyone who may write objects
	// there could otherwise take the room of all others: 22 EndpointSlices of 650 KB did.
	maxShare = maxOctets / 2
)

// Reasons to drop an object that is not too big by itself.
var (
	errManyObjects = errors.New("the limit of objects of this kind is reached")
	errNoRoom      = errors.New("the memory limit for all objects is reached")
	errNoShare     = errors.New("the memory limit for one namespace is reached")
)

type drops struct {
	count uint64
	last  zone.Key
	why   error // of the last one
}

// drop counts an object of p that is not kept.
func (s *store) drop(p *progress, key zone.Key, why error) {
	s.totals.Dropped++
	p.drops.count++
	p.drops.last, p.drops.why = key, why
}

// whyNoRoom returns why an object cannot take that many more bytes, or nil if it can.
func (s *store) whyNoRoom(key zone.Key, more int) error {
	switch {
	case more > s.room:
		return errNoRoom
	case key.Namespace != "" && more > s.share-s.taken[key.Namespace]:
		return errNoShare
	}
	return nil
}

// take counts that many more bytes for an object; fewer if it is negative.
func (s *store) take(key zone.Key, more int) {
	s.room -= more
	if s.taken[key.Namespace] += more; s.taken[key.Namespace] == 0 {
		delete(s.taken, key.Namespace)
	}
}

// sizeOf estimates the memory of an object and its entry, in bytes.
func sizeOf(key zone.Key, value any) int {
	const entry, object, port, endpoint, address = 160, 160, 24, 96, 24
	size := entry + len(key.Namespace) + len(key.Name)
	ofPorts := func(ports []zone.Port) {
		for i := range ports {
			size += port + len(ports[i].Name)
		}
	}
	ofSlice := func(v *zone.Slice) {
		size += object + len(v.Service) + len(v.Import) + len(v.Cluster)
		ofPorts(v.Ports)
		for i := range v.Endpoints {
			e := &v.Endpoints[i]
			size += endpoint + len(e.Hostname) + len(e.Pod) + len(e.Zone)
		}
	}
	ofAddrs := func(addrs []netip.Addr) { size += object + len(addrs)*address }
	switch v := value.(type) {
	case *zone.Service:
		ofAddrs(v.ClusterIPs)
		size += len(v.ExternalName)
		ofPorts(v.Ports)
	case *zone.Slice:
		ofSlice(v)
	case []zone.Slice:
		for i := range v {
			ofSlice(&v[i])
		}
	case *zone.Pod:
		ofAddrs(v.Addrs)
	}
	return size
}
