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

// FuzzObject: this package decodes everything that k8s.io/api decodes, and gets the same object
// from the JSON that k8s.io/api writes for it.
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
			t.Errorf("k8s.io/api decodes it, but this package fails: %v", err)
		}
		if err == nil { // the next object overwrites the buffer; nothing kept may point into it
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

// throughJSON decodes data through k8s.io/api and JSON. It returns false if k8s.io/api rejects
// data.
func throughJSON(t *testing.T, kind Kind, data []byte) (Object, bool) {
	type message interface{ Unmarshal(data []byte) error }
	to := map[Kind]message{
		Services:       new(corev1.Service),
		EndpointSlices: new(discoveryv1.EndpointSlice),
		Endpoints:      new(corev1.Endpoints), //lint:ignore SA1019 old clusters have only Endpoints
		Namespaces:     new(corev1.Namespace),
		Pods:           new(corev1.Pod),
	}[kind]
	if to.Unmarshal(data) != nil {
		return Object{}, false
	}
	text, err := json.Marshal(to)
	if err != nil {
		return Object{}, false // a time that JSON cannot express
	}
	from := newObjectJSON()
	if err := json.Unmarshal(text, from); err != nil {
		t.Fatal(err)
	}
	object, err := NewDecoder(kind).convert(from)
	return object, err == nil
}

// FuzzList: any body gives the same list or the same kind of error, in whatever pieces it arrives.
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
			t.Errorf("in one piece: version %d, %v; in pieces: version %d, %v", version, err, again, errAgain)
		}
	})
}

// FuzzWatch: reading any body ends, with at most one event per byte.
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
				t.Fatalf("more events than bytes")
			}
			if named := event.Type == Set || event.Type == Deleted; named != (event.Object.Key.Name != "") {
				t.Errorf("event %+v", event)
			}
		}
	})
}
