package zone

import (
	"net/netip"
	"slices"
)

// slice is a Slice as a Snapshot keeps it. It is immutable. A hundred thousand endpoints are 8 MB as Endpoint values,
// with three pointers each for the garbage collector to follow; packed they are 1 to 3 MB without one.
type slice struct {
	name    string // of the object; its namespace is that of the Service
	cluster string // as Slice has it
	ports   []Port
	data    string // the endpoints one after the other, as appendEndpoint writes them; a cursor reads them
	count   int
}

// newSlice packs s. Endpoints without an address (addressType FQDN) are left out.
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

// unpack is newSlice's other way. It uses the room of out's Endpoints.
func (s *slice) unpack(service Key, out *Slice) {
	*out = Slice{Key: Key{service.Namespace, s.name}, Service: service.Name, Cluster: s.cluster, Ports: s.ports, Endpoints: out.Endpoints[:0]}
	for c := s.endpoints(); c.next(); {
		out.Endpoints = append(out.Endpoints, c.Endpoint)
	}
}

// equal says whether both say the same; before is nil for no slice.
func (s *slice) equal(before *slice) bool {
	return before != nil && s.data == before.data && s.cluster == before.cluster && slices.Equal(s.ports, before.ports)
}

// addrs writes the addresses into buf, for nil none.
func (s *slice) addrs(buf []netip.Addr) []netip.Addr {
	buf = buf[:0]
	if s != nil {
		for c := s.endpoints(); c.next(); {
			buf = append(buf, c.Addr)
		}
	}
	return buf
}

// objects is 1, for nil 0.
func (s *slice) objects() int {
	if s == nil {
		return 0
	}
	return 1
}

// size is the number of endpoints, for nil 0.
func (s *slice) size() int {
	if s == nil {
		return 0
	}
	return s.count
}

// What the first octet of a packed endpoint says.
const (
	isReady = 1 << iota
	is6
	hasHostname
	hasPod
	newZone // another zone than the endpoint before
)

// appendEndpoint packs e: flags, address, then hostname, pod and zone as far as the flags say, each after its length.
// zone is that of the endpoint before. What the API would not let pass (a hostname that is no label) is dropped.
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

// A cursor walks over the endpoints of a slice; Endpoint is where it stands. It allocates nothing.
type cursor struct {
	Endpoint
	data string // what is left
}

func (s *slice) endpoints() cursor { return cursor{data: s.data} }

// next steps to the next endpoint, at first the first. At the end it returns false.
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
