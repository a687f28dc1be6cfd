package kubewire

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// Events is a running WATCH. It is not safe for concurrent use.
type Events struct {
	decoder *Decoder
	frames  *stream       // for Protobuf
	values  *json.Decoder // for JSON
	bound   *bounded      // for JSON
}

// Watch decodes the response to a WATCH.
func (d *Decoder) Watch(body io.Reader, format Format) *Events {
	if format == JSON {
		bound := &bounded{r: bufio.NewReaderSize(body, readAhead)}
		return &Events{decoder: d, values: json.NewDecoder(bound), bound: bound}
	}
	return &Events{decoder: d, frames: newStream(body)}
}

// Next waits for the next event. It returns io.EOF after the last complete event, and
// io.ErrUnexpectedEOF within one.
func (e *Events) Next() (Event, error) {
	event, err := e.next()
	if err != nil && !errors.Is(err, io.EOF) {
		return Event{}, fmt.Errorf("watching %v: %w", e.decoder.kind, err)
	}
	return event, err
}

func (e *Events) next() (Event, error) {
	if e.values != nil {
		return e.decoder.eventJSON(e.values, e.bound)
	}
	frame, err := e.frame()
	if err != nil {
		return Event{}, err
	}
	return e.decoder.event(frame)
}

// frame reads one frame of the stream. Its length comes first, in four bytes, big-endian
// (k8s.io/apimachinery pkg/util/framer).
func (e *Events) frame() ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(e.frames.r, size[:]); err != nil {
		return nil, err
	}
	return e.frames.take(uint64(binary.BigEndian.Uint32(size[:])), maxObject)
}

// event decodes a meta/v1 WatchEvent: 1 type, 2 object (a RawExtension: 1 raw, which is a
// runtime.Unknown).
func (d *Decoder) event(frame []byte) (Event, error) {
	var eventType string
	var raw []byte
	f := fields{rest: frame}
	for f.next() {
		switch {
		case f.isBytes(1):
			eventType = d.names.text(f.bytes)
		case f.isBytes(2):
			var err error
			if raw, err = field(f.bytes, 1); err != nil {
				return Event{}, err
			}
		}
	}
	if f.err != nil {
		return Event{}, f.err
	}
	message, err := unwrap(raw)
	if err != nil {
		return Event{}, err
	}
	return d.newEvent(eventType, message)
}

func (d *Decoder) newEvent(eventType string, message []byte) (event Event, err error) {
	switch eventType {
	case "ADDED", "MODIFIED":
		event.Object, err = d.object(message)
	case "DELETED":
		event.Type = Deleted
		event.Object, err = d.object(message)
		event.Object.Value, event.Object.Triggered = nil, time.Time{}
	case "BOOKMARK":
		var m meta
		event.Type = Bookmark
		m, err = d.metaAlone(message)
		event.Object.Version = m.version
	case "ERROR":
		event.Type = Failed
		event.Status, err = parseStatus(message)
	default:
		err = fmt.Errorf("%w: event type %.40q", ErrMalformed, eventType)
	}
	return event, err
}

// unwrap returns the message in a runtime.Unknown.
func unwrap(data []byte) (raw []byte, err error) {
	if len(data) < len(magic) || string(data[:len(magic)]) != magic {
		return nil, fmt.Errorf("%w: not in Kubernetes protobuf format", ErrMalformed)
	}
	return field(data[len(magic):], 2)
}
