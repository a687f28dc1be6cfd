package kubewire

import (
	"bytes"
	"encoding/json"
)

// newObjectJSON returns an empty objectJSON. It limits the total number of list members during
// decoding: 8 MiB of JSON can hold 2.8 million empty endpoints, which would take a hundred times as
// much memory.
func newObjectJSON() *objectJSON {
	room := maxItems
	o := &objectJSON{room: &room}
	o.Spec.ClusterIPs.room, o.Spec.IPs.room, o.Spec.Ports.room, o.Status.PodIPs.room = &room, &room, &room, &room
	o.Endpoints.room, o.Ports.room, o.Subsets.room = &room, &room, &room
	o.Data.room = &room
	return o
}

func (e *endpointJSON) within(room *int) { e.Addresses.room = room }

func (s *subsetJSON) within(room *int) {
	s.Addresses.room, s.NotReadyAddresses.room, s.Ports.room = room, room, room
}

// list is a JSON list. Decoding stops if it has too many members.
type list[T any] struct {
	all  []T
	room *int
}

// UnmarshalJSON implements json.Unmarshaler.
func (l *list[T]) UnmarshalJSON(data []byte) error {
	l.all = l.all[:0] // if a key occurs twice, the last one wins
	values := json.NewDecoder(bytes.NewReader(data))
	start, err := values.Token()
	if err != nil || start == nil {
		return err
	}
	if start != json.Delim('[') {
		return ErrMalformed
	}
	for values.More() {
		if *l.room--; *l.room < 0 {
			return nil
		}
		var member T
		if nested, ok := any(&member).(interface{ within(room *int) }); ok {
			nested.within(l.room)
		}
		if err := values.Decode(&member); err != nil {
			return err
		}
		l.all = append(l.all, member)
	}
	return nil
}

// texts is a JSON object with string members. Decoding stops if it has too many. Each member counts
// as memberRoom list members.
type texts struct {
	all  map[string]string
	room *int
}

// memberRoom allows 8,192 members. Two million empty ones would take ten times the memory of their
// JSON.
const memberRoom = 32

// UnmarshalJSON implements json.Unmarshaler.
func (t *texts) UnmarshalJSON(data []byte) error {
	t.all = nil // if a key occurs twice, the last one wins
	values := json.NewDecoder(bytes.NewReader(data))
	start, err := values.Token()
	if err != nil || start == nil {
		return err
	}
	if start != json.Delim('{') {
		return ErrMalformed
	}
	for values.More() {
		key, err := values.Token()
		if err != nil {
			return err
		}
		if *t.room -= memberRoom; *t.room < 0 {
			return nil
		}
		var text string
		if err := values.Decode(&text); err != nil {
			return err
		}
		if t.all == nil {
			t.all = make(map[string]string)
		}
		t.all[key.(string)] = text
	}
	return nil
}

// some reports whether a JSON object or list has members.
type some bool

// UnmarshalJSON implements json.Unmarshaler.
func (s *some) UnmarshalJSON(data []byte) error {
	values := json.NewDecoder(bytes.NewReader(data))
	if _, err := values.Token(); err != nil {
		return err
	}
	*s = some(values.More())
	return nil
}
