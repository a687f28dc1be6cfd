package upstream

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// recordVersion is the version that Bytes writes and ParseRecord reads.
const recordVersion = 1

// maxRecord bounds the input of ParseRecord, in bytes.
const maxRecord = 1 << 20

// A Record is a selection on disk: the last good upstreams and their source, including the servers
// over TLS, which no other file can hold.
type Record struct {
	Version int `json:"version"` // written by Bytes; callers leave it zero
	Set
	Origin Origin `json:"origin"`
	Detail string `json:"detail,omitempty"`
	// Event is the event behind the run, for display: "eth0 dhcp4-change".
	Event string `json:"event,omitempty"`
	// Time is when the set was chosen, or zero if unknown.
	Time time.Time `json:"time,omitzero"`
	// Lacking is why a last-good set serves although the network should offer one, or "" if it does
	// or need not. Since is when that began.
	Lacking string    `json:"lacking,omitempty"`
	Since   time.Time `json:"lackingSince,omitzero"`
	// Pointed are this node's addresses that resolv.conf named or that pods were given, newest
	// first, without zone IDs. Only the first maxPointed count.
	Pointed []netip.Addr `json:"pointed,omitempty"`
}

// maxPointed bounds how many of this node's addresses a Record holds.
const maxPointed = 8

// Bytes returns the record as JSON, with times in UTC and whole seconds, and a final newline.
// ParseRecord reads it back. The set is normalized.
func (r Record) Bytes() []byte {
	r.Version = recordVersion
	r.Set, r.Pointed = r.Set.Normalize(), newest(r.Pointed)
	for _, text := range []*string{&r.Detail, &r.Event, &r.Lacking} {
		// json replaces invalid UTF-8, so the record would differ after it is read back.
		*text = strings.ToValidUTF8(*text, "\ufffd")
	}
	for i, route := range r.Routes {
		r.Routes[i].Source = strings.ToValidUTF8(route.Source, "\ufffd")
	}
	r.Time, r.Since = r.Time.UTC().Truncate(time.Second), r.Since.UTC().Truncate(time.Second)
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		// This fails only for a year that RFC 3339 cannot represent.
		r.Time, r.Since = time.Time{}, time.Time{}
		text, _ = json.MarshalIndent(r, "", "  ")
	}
	return append(text, '\n')
}

// ParseRecord parses the output of Bytes. It ignores unknown keys. Another version is an error, and
// so is a single invalid server or domain: a damaged record is not trusted in part. Servers beyond
// MaxServers and maxRouted are dropped: only an earlier version may have written them.
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
	r.Set, r.Pointed = r.Set.Normalize().limited(), newest(r.Pointed)
	return r, nil
}

// PointedAt returns Pointed with the addresses here in front, resolv.conf's first, but without
// addresses of servers: DHCP may give a node's old address to a nameserver.
func (r Record) PointedAt(here []netip.Addr, servers []nameserver.Server) []netip.Addr {
	return slices.DeleteFunc(newest(slices.Concat(here, r.Pointed)), func(addr netip.Addr) bool {
		return slices.ContainsFunc(servers, func(server nameserver.Server) bool {
			return server.Plain() && server.Addr.Port() == nameserver.Port && server.Addr.Addr().WithZone("") == addr
		})
	})
}

// newest returns the first maxPointed addresses without duplicates.
func newest(addrs []netip.Addr) []netip.Addr {
	var list []netip.Addr
	for _, addr := range addrs {
		addr = addr.Unmap().WithZone("")
		if addr.IsValid() && !slices.Contains(list, addr) && len(list) < maxPointed {
			list = append(list, addr)
		}
	}
	return list
}
