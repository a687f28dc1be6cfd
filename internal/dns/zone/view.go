package zone

import (
	"cmp"
	"slices"
	"strings"
)

// view is a Service with its slices, as questions see it. It is immutable: a change makes another one.
type view struct {
	key    string   // its name and its namespace as labels of a name in wire format
	svc    *Service // nil: there are slices, but no Service that they belong to, and it has no name
	slices []*slice // by name, so that answers do not depend on the order in which they came
	// repeats counts the addresses that it has more than once; 0, and answers need not look for it.
	repeats int
	number  uint32 // in the index of addresses
}

// viewKey returns the key of the view of a Service.
func viewKey(service Key) string {
	return string(appendLabel(appendLabel(nil, service.Name), service.Namespace))
}

// service is viewKey's other way.
func (v *view) service() Key {
	name := v.key[1 : 1+v.key[0]]
	return Key{Namespace: v.key[2+len(name):], Name: name}
}

func (v *view) namespace() string { return v.service().Namespace }

// slice returns the slice of that name, nil when it has none.
func (v *view) slice(name string) *slice {
	if i, found := v.find(name); found {
		return v.slices[i]
	}
	return nil
}

func (v *view) find(name string) (int, bool) {
	return slices.BinarySearchFunc(v.slices, name, func(s *slice, name string) int { return cmp.Compare(s.name, name) })
}

// with returns the slices with s, in the place of the one of its name.
func (v *view) with(s *slice) []*slice {
	i, found := v.find(s.name)
	changed := make([]*slice, 0, len(v.slices)+1)
	changed = append(append(changed, v.slices[:i]...), s)
	if found {
		i++
	}
	return append(changed, v.slices[i:]...)
}

// without returns the slices without the one of that name.
func (v *view) without(name string) []*slice {
	return slices.DeleteFunc(slices.Clone(v.slices), func(s *slice) bool { return s.name == name })
}

// isReady says whether the endpoint is answered.
func (v *view) isReady(c *cursor) bool { return c.Ready || v.svc.PublishNotReady }

// appendLabel appends a label in wire format. It is at most 63 octets long.
func appendLabel[S string | []byte](name []byte, label S) []byte {
	return append(append(name, byte(len(label))), label...)
}

const maxLabel = 63

// isLabel says whether the text can be one label of a name.
func isLabel(text string) bool {
	return text != "" && len(text) <= maxLabel && strings.IndexByte(text, '.') < 0
}
