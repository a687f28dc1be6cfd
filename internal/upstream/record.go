package upstream

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// recordVersion is the version that Bytes writes and ParseRecord reads.
const recordVersion = 1

// maxRecord bounds what ParseRecord reads, in bytes.
const maxRecord = 1 << 20

// A Record is a selection on disk: the last good upstreams and where they came
// from, with the servers over TLS that no other file can hold.
type Record struct {
	Version int `json:"version"` // written by Bytes; callers leave it zero
	Set
	Origin Origin `json:"origin"`
	Detail string `json:"detail,omitempty"`
	// Event is what made the program look, for people: "eth0 dhcp4-change".
	Event string `json:"event,omitempty"`
	// Time is when the set was chosen; zero is unknown.
	Time time.Time `json:"time,omitzero"`
}

// Bytes returns the record as JSON, in UTC and seconds, with a final newline;
// ParseRecord reads it back. The set is normalized.
func (r Record) Bytes() []byte {
	r.Version = recordVersion
	r.Set = r.Set.Normalize()
	for _, text := range []*string{&r.Detail, &r.Event} {
		// json would write invalid UTF-8 in one way now and in another once read.
		*text = strings.ToValidUTF8(*text, "\ufffd")
	}
	r.Time = r.Time.UTC().Truncate(time.Second)
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		// Only a year that RFC 3339 cannot write makes this fail.
		r.Time = time.Time{}
		text, _ = json.MarshalIndent(r, "", "  ")
	}
	return append(text, '\n')
}

// ParseRecord reads what Bytes wrote. Keys that it does not know pass. A record
// of another version is an error, and so is one server or domain that is none:
// a damaged record is not trusted in part. Servers beyond MaxServers and
// MaxRouted are left out: no run writes them, but one of an earlier version may
// have.
func ParseRecord(data []byte) (Record, error) {
	if len(data) > maxRecord {
		return Record{}, fmt.Errorf("reading upstream record: longer than %d bytes", maxRecord)
	}
	var r Record
	if err := json.Unmarshal(data, &r); err != nil {
		return Record{}, fmt.Errorf("reading upstream record: %w", err)
	}
	if r.Version != recordVersion {
		return Record{}, fmt.Errorf("reading upstream record: version %d, expected %d", r.Version, recordVersion)
	}
	r.Set = r.Set.Normalize().limited()
	return r, nil
}
