package kubewire

import (
	"encoding/binary"
	"slices"

	"github.com/node-dns/node-dns/internal/zone"
)

// maxInterned bounds each table of an interner. A table that is full starts anew: then some values are kept twice, and
// nothing else changes.
const maxInterned = 4096

// interner keeps one copy of what many objects share: namespaces, zones, lists of ports. Nothing in it points into
// the buffer that it was read from.
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
	if s, ok := in.texts[string(b)]; ok { // does not allocate
		return s
	}
	if len(in.texts) >= maxInterned {
		clear(in.texts)
	}
	s := string(b)
	in.texts[s] = s
	return s
}

// portList returns a copy of ports that is not to be changed.
func (in *interner) portList(ports []zone.Port) []zone.Port {
	if len(ports) == 0 {
		return nil
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
