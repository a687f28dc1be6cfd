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

// question is the name and type in the question, split into labels. read prepares it for reuse.
type question struct {
	// The name in wire format with the root label and its original case; owned by the caller.
	asked []byte
	// The same in lower case (length bytes are below 'A'); for a query in wire format, followed by
	// type and class.
	lower  [maxQuestion]byte
	labels [maxLabels + 1]uint8 // offset of each label; the root label is last
	n      int                  // number of labels without the root label
	qtype  uint16
}

// read takes the name at the beginning of wire, which must not be compressed. It returns the end of
// the name, or 0 if it is invalid.
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

// key returns the question of a query in wire format, in lower case.
func (q *question) key() []byte { return q.lower[:len(q.asked)+typeAndClass] }

// label returns label i, counted from 0, in lower case.
func (q *question) label(i int) []byte {
	return q.lower[q.labels[i]+1 : q.labels[i+1]]
}

// span returns labels i to j-1 in wire format and lower case.
func (q *question) span(i, j int) []byte { return q.lower[q.labels[i]:q.labels[j]] }

// within returns the number of labels that the name has below the domain, and whether it is in the
// domain.
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
