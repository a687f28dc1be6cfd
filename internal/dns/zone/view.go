package zone

import (
	"cmp"
	"slices"
	"strings"
)

// view is a Service with its slices, as lookups see it. It is immutable once a Snapshot has it: a
// change then creates a new view.
type view struct {
	key    string   // name and namespace of the Service as labels in wire format
	svc    *Service // nil if there are only slices; then the view has no name
	slices []*slice // sorted by name, so that answers do not depend on the order of arrival
	// repeats counts the addresses that the view has more than once. If it is 0, answers need not
	// look for duplicates.
	repeats int
	number  uint32 // in the address index
	isDraft bool   // no Snapshot has it
}

// viewKey returns the key of the view of a Service.
func viewKey(service Key) string {
	return string(appendLabel(appendLabel(nil, service.Name), service.Namespace))
}

// service is the inverse of viewKey.
func (v *view) service() Key {
	name := v.key[1 : 1+v.key[0]]
	return Key{Namespace: v.key[2+len(name):], Name: name}
}

func (v *view) namespace() string { return v.service().Namespace }

// slice returns the slice with that name, or nil.
func (v *view) slice(name string) *slice {
	if i, found := v.find(name); found {
		return v.slices[i]
	}
	return nil
}

func (v *view) find(name string) (int, bool) {
	return slices.BinarySearchFunc(v.slices, name, func(s *slice, name string) int { return cmp.Compare(s.name, name) })
}

// setSlice replaces the slice with that name by s, or removes it if s is nil. The view must be a
// draft.
func (v *view) setSlice(name string, s *slice) {
	i, found := v.find(name)
	switch {
	case found && s != nil:
		v.slices[i] = s
	case found:
		v.slices = slices.Delete(v.slices, i, i+1)
	case s != nil:
		v.slices = slices.Insert(v.slices, i, s)
	}
}

// isReady reports whether the endpoint may be in answers.
func (v *view) isReady(c *cursor) bool { return c.Ready || v.svc.PublishNotReady }

// appendLabel appends a label in wire format. The label has at most 63 bytes.
func appendLabel[S string | []byte](name []byte, label S) []byte {
	return append(append(name, byte(len(label))), label...)
}

const maxLabel = 63

// isLabel reports whether the string can be a label of a name.
func isLabel(text string) bool {
	return text != "" && len(text) <= maxLabel && strings.IndexByte(text, '.') < 0
}
