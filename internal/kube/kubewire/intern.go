package kubewire

import (
	"encoding/binary"
	"slices"

	"github.com/node-dns/node-dns/internal/dns/zone"
)

// Limits of an interner. Its tables outlive the objects, and the store does not count them. A full
// table is emptied, which only costs some duplicates. Longer values are not interned: 300 updates
// of one object filled 300 MiB.
const (
	maxInterned      = 4096 // values per table
	maxInternedPorts = 16   // ports per list
)

// interner keeps one copy of values that many objects share: namespaces, zones, lists of ports.
// Nothing in it points into the input buffer.
type interner struct {
	texts map[string]string
	ports map[string][]zone.Port
	key   []byte // scratch
}

func newInterner() interner {
	return interner{texts: make(map[string]string), ports: make(map[string][]zone.Port)}
}

func (in *interner) text(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	if len(b) > maxLabel {
		return string(b)
	}
	if s, ok := in.texts[string(b)]; ok { // no allocation
		return s
	}
	if len(in.texts) >= maxInterned {
		clear(in.texts)
	}
	s := string(b)
	in.texts[s] = s
	return s
}

// label interns a label of a DNS name or of an object, such as a port name or a zone. It returns ""
// if b is too long for a label.
func (in *interner) label(b []byte) string {
	if len(b) > maxLabel {
		return ""
	}
	return in.text(b)
}

// portList returns a copy of ports. Callers must not change it.
func (in *interner) portList(ports []zone.Port) []zone.Port {
	if len(ports) == 0 {
		return nil
	}
	if len(ports) > maxInternedPorts {
		return slices.Clone(ports)
	}
	in.key = in.key[:0]
	for _, p := range ports {
		in.key = append(append(in.key, p.Name...), 0, byte(p.Protocol))
		in.key = binary.BigEndian.AppendUint16(in.key, p.Number)
	}
	if shared, ok := in.ports[string(in.key)]; ok {
		return shared
	}
	if len(in.ports) >= maxInterned {
		clear(in.ports)
	}
	kept := slices.Clone(ports)
	in.ports[string(in.key)] = kept
	return kept
}
