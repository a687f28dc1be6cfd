package kubewire

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
)

// Decoder decodes objects of one kind. It is not safe for concurrent use.
type Decoder struct {
	kind  Kind
	names interner
	*scratch
}

// NewDecoder returns a Decoder for objects of kind.
func NewDecoder(kind Kind) *Decoder {
	return &Decoder{kind: kind, names: newInterner(), scratch: new(scratch)}
}

// List decodes the response to a LIST and calls each for every item as it arrives. It returns the
// version of the list, or 0 with an error. An error from each stops List and is returned.
func (d *Decoder) List(body io.Reader, format Format, each func(Object) error) (version uint64, err error) {
	meta, err := d.list(body, format, each)
	if err == nil && meta.more {
		err = fmt.Errorf("%w: the list is incomplete", ErrMalformed)
	}
	if err != nil {
		return 0, fmt.Errorf("reading a list of %v: %w", d.kind, err)
	}
	return meta.version, nil
}

// Version decodes the response to a LIST like List, but returns only the version. The list may be
// partial.
func (d *Decoder) Version(body io.Reader, format Format) (version uint64, err error) {
	meta, err := d.list(body, format, func(Object) error { return nil })
	if err != nil {
		return 0, fmt.Errorf("reading the version of a list of %v: %w", d.kind, err)
	}
	return meta.version, nil
}

func (d *Decoder) list(body io.Reader, format Format, each func(Object) error) (meta listMeta, err error) {
	if format == JSON {
		meta, err = d.listJSON(body, each)
	} else {
		meta, err = d.listProtobuf(body, each)
	}
	if err == nil && meta.version == 0 {
		err = fmt.Errorf("%w: missing resourceVersion", ErrMalformed)
	}
	return meta, err
}

// listMeta has the fields that are read of a meta/v1 ListMeta.
type listMeta struct {
	version uint64
	more    bool // the list has a continue token
}

// magic starts every object in protobuf, followed by a runtime.Unknown with the object:
// k8s.io/apimachinery pkg/runtime/serializer/protobuf. Only the WatchEvent around an object has no
// magic.
const magic = "k8s\x00"

// listProtobuf decodes a runtime.Unknown: 1 typeMeta (1 apiVersion, 2 kind), 2 raw, 3
// contentEncoding, 4 contentType.
func (d *Decoder) listProtobuf(body io.Reader, each func(Object) error) (meta listMeta, err error) {
	s := newStream(body)
	start, err := s.take(uint64(len(magic)), uint64(len(magic)))
	if err != nil {
		return meta, err
	}
	if string(start) != magic {
		return meta, fmt.Errorf("%w: not in Kubernetes protobuf format", ErrMalformed)
	}
	for {
		num, wire, err := s.field()
		switch {
		case errors.Is(err, io.EOF):
			return meta, nil
		case err != nil:
			return meta, err
		case num == 1 && wire == wireBytes:
			err = s.message(maxMeta, d.checkKind)
		case num == 2 && wire == wireBytes:
			err = d.items(s, &meta, each)
		default:
			err = s.skip(wire)
		}
		if err != nil {
			return meta, err
		}
	}
}

// checkKind decodes and checks the TypeMeta of the list.
func (d *Decoder) checkKind(typeMeta []byte) error {
	kind, err := field(typeMeta, 2)
	if err == nil && kind != nil && string(kind) != d.kind.String()+"List" {
		return fmt.Errorf("%w: unexpected kind %.100q", ErrMalformed, kind)
	}
	return err
}

// items decodes the list itself: 1 metadata, 2 items. Lists of all kinds have these numbers.
func (d *Decoder) items(s *stream, meta *listMeta, each func(Object) error) error {
	n, err := s.length()
	if err != nil {
		return err
	}
	s.left = n
	for s.left > 0 {
		num, wire, err := s.field()
		switch {
		case err != nil:
		case num == 1 && wire == wireBytes:
			err = s.message(maxMeta, meta.parse)
		case num == 2 && wire == wireBytes:
			err = s.message(maxObject, func(item []byte) error { return d.item(item, each) })
		default:
			err = s.skip(wire)
		}
		if err != nil {
			return unexpected(err)
		}
	}
	s.left = math.MaxUint64
	return nil
}

func (d *Decoder) item(message []byte, each func(Object) error) error {
	object, err := d.object(message)
	if err != nil {
		return err
	}
	return each(object)
}

// message passes a field's value, a message, to read.
func (s *stream) message(limit uint64, read func([]byte) error) error {
	n, err := s.length()
	if err != nil {
		return err
	}
	message, err := s.take(n, limit)
	if err != nil {
		return err
	}
	return read(message)
}

// parse decodes a ListMeta: 2 resourceVersion, 3 continue.
func (m *listMeta) parse(message []byte) (err error) {
	f := fields{rest: message}
	for f.next() {
		switch {
		case f.isBytes(2):
			if m.version, err = parseVersion(f.bytes); err != nil {
				return err
			}
		case f.isBytes(3):
			m.more = len(f.bytes) > 0
		}
	}
	return f.err
}

// parseVersion parses a resourceVersion. An empty one is 0.
func parseVersion(text []byte) (uint64, error) {
	if len(text) == 0 {
		return 0, nil
	}
	version, err := strconv.ParseUint(string(text), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: resourceVersion %.40q is not a number", ErrMalformed, text)
	}
	return version, nil
}
