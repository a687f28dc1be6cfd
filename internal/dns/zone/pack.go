package zone

import (
	"net/netip"
	"slices"
)

// slice is a Slice as a Snapshot stores it. It is immutable. As Endpoint values, a hundred thousand
// endpoints take 8 MB, with three pointers each for the garbage collector. Packed, they take 1 to 3
// MB without pointers.
type slice struct {
	name    string // of the object; its namespace is that of the Service
	cluster string // as in Slice
	ports   []Port
	data    string // packed endpoints, as written by appendEndpoint and read by a cursor
	count   int
}

// newSlice packs s. It omits endpoints without an address (addressType FQDN).
func newSlice(s *Slice) *slice {
	var data []byte
	var zone string
	count := 0
	for _, e := range s.Endpoints {
		if !e.Addr.IsValid() {
			continue
		}
		data = appendEndpoint(data, e, zone)
		zone = e.Zone
		count++
	}
	return &slice{name: s.Name, cluster: s.Cluster, ports: s.Ports, data: string(data), count: count}
}

// unpack is the inverse of newSlice. It reuses the Endpoints slice of out.
func (s *slice) unpack(service Key, out *Slice) {
	*out = Slice{Key: Key{service.Namespace, s.name}, Service: service.Name, Cluster: s.cluster, Ports: s.ports, Endpoints: out.Endpoints[:0]}
	for c := s.endpoints(); c.next(); {
		out.Endpoints = append(out.Endpoints, c.Endpoint)
	}
}

// equal reports whether both are equal; a nil before means no slice.
func (s *slice) equal(before *slice) bool {
	return before != nil && s.data == before.data && s.cluster == before.cluster && slices.Equal(s.ports, before.ports)
}

// addrs writes the addresses into buf. A nil slice has none.
func (s *slice) addrs(buf []netip.Addr) []netip.Addr {
	buf = buf[:0]
	if s != nil {
		for c := s.endpoints(); c.next(); {
			buf = append(buf, c.Addr)
		}
	}
	return buf
}

// objects returns 1, or 0 for nil.
func (s *slice) objects() int {
	if s == nil {
		return 0
	}
	return 1
}

// size returns the number of endpoints; 0 for nil.
func (s *slice) size() int {
	if s == nil {
		return 0
	}
	return s.count
}

// Flags in the first byte of a packed endpoint.
const (
	isReady = 1 << iota
	is6
	hasHostname
	hasPod
	newZone // its zone differs from that of the previous endpoint
)

// appendEndpoint packs e: flags, address, then hostname, pod and zone if flagged, each with its
// length. zone is the zone of the previous endpoint. It drops what the API would reject, such as a
// hostname that is not a label.
func appendEndpoint(data []byte, e Endpoint, zone string) []byte {
	flags := len(data)
	data = append(data, 0)
	if addr := e.Addr.Unmap(); addr.Is4() {
		octets := addr.As4()
		data = append(data, octets[:]...)
	} else {
		octets := addr.As16()
		data = append(data, octets[:]...)
		data[flags] |= is6
	}
	if e.Ready {
		data[flags] |= isReady
	}
	put := func(flag byte, text string, worth bool) {
		if worth && len(text) <= maxOctet {
			data = append(append(data, byte(len(text))), text...)
			data[flags] |= flag
		}
	}
	put(hasHostname, e.Hostname, isLabel(e.Hostname))
	put(hasPod, e.Pod, e.Pod != "")
	put(newZone, e.Zone, e.Zone != zone)
	return data
}

const maxOctet = 255

// A cursor iterates over the endpoints of a slice. Endpoint is the current one. It allocates
// nothing.
type cursor struct {
	Endpoint
	data string // the rest
}

func (s *slice) endpoints() cursor { return cursor{data: s.data} }

// next moves to the next endpoint, or to the first one at the start. At the end it returns false.
func (c *cursor) next() bool {
	if c.data == "" {
		return false
	}
	flags := c.data[0]
	c.data = c.data[1:]
	c.Ready = flags&isReady != 0
	if flags&is6 == 0 {
		c.Addr = netip.AddrFrom4([4]byte{c.data[0], c.data[1], c.data[2], c.data[3]})
		c.data = c.data[4:]
	} else {
		var octets [16]byte
		c.data = c.data[copy(octets[:], c.data):]
		c.Addr = netip.AddrFrom16(octets)
	}
	c.Hostname, c.Pod = "", ""
	if flags&hasHostname != 0 {
		c.Hostname = c.text()
	}
	if flags&hasPod != 0 {
		c.Pod = c.text()
	}
	if flags&newZone != 0 {
		c.Zone = c.text()
	}
	return true
}

func (c *cursor) text() string {
	end := 1 + int(c.data[0])
	text := c.data[1:end]
	c.data = c.data[end:]
	return text
}
