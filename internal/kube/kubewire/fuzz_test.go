package kubewire

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/node-dns/node-dns/internal/test/kubetest"
)

func appendField(b []byte, number uint64, data []byte) []byte {
	b = binary.AppendUvarint(b, number<<3|wireBytes)
	b = binary.AppendUvarint(b, uint64(len(data)))
	return append(b, data...)
}

// FuzzObject: whatever k8s.io/api can read, this package reads too, and makes the same of it as of the JSON that
// k8s.io/api writes of it.
func FuzzObject(f *testing.F) {
	parsed, err := kubetest.Parse(objects)
	if err != nil {
		f.Fatal(err)
	}
	for _, o := range parsed {
		data, err := o.Marshal()
		if err != nil {
			f.Fatal(err)
		}
		for kind := range paths {
			f.Add(uint8(kind), data)
		}
	}
	f.Fuzz(func(t *testing.T, number uint8, data []byte) {
		kind := Kind(number % uint8(len(paths)))
		original := bytes.Clone(data)
		got, err := NewDecoder(kind).object(data)
		want, known := throughJSON(t, kind, original)
		switch {
		case !known || !utf8.Valid(original):
		case err == nil && !cmp.Equal(want, got, sameSet):
			t.Error(cmp.Diff(want, got, sameSet))
		case err != nil && !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrTooBig):
			t.Errorf("k8s.io/api reads it, and this package says %v", err)
		}
		if err == nil { // nothing kept points into the buffer, which the next object overwrites
			before := asText(t, got)
			clear(data)
			if after := asText(t, got); before != after {
				t.Errorf("kept %s, then %s", before, after)
			}
		}
	})
}

func asText(t *testing.T, o Object) string {
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// throughJSON reads data by way of k8s.io/api; false where that does not take it.
func throughJSON(t *testing.T, kind Kind, data []byte) (Object, bool) {
	type message interface{ Unmarshal(data []byte) error }
	to := map[Kind]message{
		Services:       new(corev1.Service),
		EndpointSlices: new(discoveryv1.EndpointSlice),
		Endpoints:      new(corev1.Endpoints), //lint:ignore SA1019 it is what old clusters have
		Namespaces:     new(corev1.Namespace),
		Pods:           new(corev1.Pod),
	}[kind]
	if to.Unmarshal(data) != nil {
		return Object{}, false
	}
	text, err := json.Marshal(to)
	if err != nil {
		return Object{}, false // a time beyond what JSON has
	}
	from := newObjectJSON()
	if err := json.Unmarshal(text, from); err != nil {
		t.Fatal(err)
	}
	object, err := NewDecoder(kind).convert(from)
	return object, err == nil
}

// FuzzList: any body, in pieces of any size, ends in the same list or the same kind of error.
func FuzzList(f *testing.F) {
	for _, accept := range []string{Accept, "application/json"} {
		s := kubetest.New()
		s.Apply(objects)
		f.Add(get(f, s, paths[EndpointSlices], accept).Body.Bytes(), accept != Accept)
	}
	f.Fuzz(func(t *testing.T, body []byte, isJSON bool) {
		read := func(r io.Reader) (all []Object, version uint64, err error) {
			format := Protobuf
			if isJSON {
				format = JSON
			}
			version, err = NewDecoder(EndpointSlices).List(r, format, func(o Object) error {
				all = append(all, o)
				return nil
			})
			return all, version, err
		}
		whole, version, err := read(bytes.NewReader(body))
		pieces, again, errAgain := read(iotest.HalfReader(bytes.NewReader(body)))
		if version != again || (err == nil) != (errAgain == nil) || !cmp.Equal(whole, pieces, sameSet) {
			t.Errorf("whole: version %d, %v; in pieces: version %d, %v", version, err, again, errAgain)
		}
	})
}

// FuzzWatch: any body ends; the events before its end are those of the body that ends there.
func FuzzWatch(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x00"), false)
	f.Add(frames(f), false)
	f.Add([]byte(`{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"5"}}}`), true)
	f.Fuzz(func(t *testing.T, body []byte, isJSON bool) {
		format := Protobuf
		if isJSON {
			format = JSON
		}
		events := NewDecoder(Services).Watch(bytes.NewReader(body), format)
		for n := 0; ; n++ {
			event, err := events.Next()
			if err != nil {
				return
			}
			if n > len(body) {
				t.Fatalf("more events than octets")
			}
			if named := event.Type == Set || event.Type == Deleted; named != (event.Object.Key.Name != "") {
				t.Errorf("event %+v", event)
			}
		}
	})
}
