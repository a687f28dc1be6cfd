package zone

import (
	"strings"

	"github.com/node-dns/node-dns/internal/dns/dnswire"
)

const (
	maxName   = 255
	maxLabels = maxName / 2

	typeAndClass = 2 + 2
	maxQuestion  = maxName + typeAndClass
)

// question is the name and type that are asked for, cut into labels. It is reused: read sets it anew.
type question struct {
	asked  []byte               // the name as asked, in wire format with the root label; the caller's
	lower  [maxQuestion]byte    // it in lower case (the octets of lengths are below 'A'); of a query on the wire, type and class behind it
	labels [maxLabels + 1]uint8 // where each label begins, the root label last
	n      int                  // labels, the root label not counted
	qtype  uint16
}

// read takes the name at the beginning of wire, which must not be compressed. It returns where the name ends, 0 when
// there is none.
func (q *question) read(wire []byte) (end int) {
	q.n = 0
	for end < len(wire) && end < maxName {
		size := int(wire[end])
		q.labels[q.n] = uint8(end)
		end += 1 + size
		switch {
		case size > maxLabel || end > len(wire) || end > maxName:
			return 0
		case size == 0:
			q.asked = wire[:end:end]
			dnswire.AppendLower(q.lower[:0], q.asked)
			return end
		}
		q.n++
	}
	return 0
}

// key is the question of a query on the wire, in lower case.
func (q *question) key() []byte { return q.lower[:len(q.asked)+typeAndClass] }

// label returns label i in lower case, the first is 0.
func (q *question) label(i int) []byte {
	return q.lower[q.labels[i]+1 : q.labels[i+1]]
}

// span returns labels i to j-1 in wire format and lower case.
func (q *question) span(i, j int) []byte { return q.lower[q.labels[i]:q.labels[j]] }

// within returns how many labels the name has below the domain, and whether it is in it.
func (q *question) within(d *domain) (below int, in bool) {
	below = q.n - d.labels
	return below, below >= 0 && string(q.lower[q.labels[below]:len(q.asked)]) == d.wire
}

// wireName returns a name without escapes in wire format.
func wireName(name string) []byte {
	var wire []byte
	for label := range strings.SplitSeq(strings.TrimSuffix(name, "."), ".") {
		if label != "" {
			wire = appendLabel(wire, label)
		}
	}
	return append(wire, 0)
}
