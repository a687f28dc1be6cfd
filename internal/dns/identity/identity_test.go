package identity

import (
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// TestQuery: each query asks for version.bind, with an ID of its own.
func TestQuery(t *testing.T) {
	seen := map[uint16]bool{}
	for range 50 {
		packet, id, err := newQuery()
		if err != nil {
			t.Fatal(err)
		}
		var m dnsmessage.Message
		if err := m.Unpack(packet); err != nil {
			t.Fatal(err)
		}
		q := m.Questions[0]
		if m.ID != id || m.Response || q.Name.String() != "version.bind." || q.Type != dnsmessage.TypeTXT || q.Class != dnsmessage.ClassCHAOS {
			t.Fatalf("asks %v with ID %d, want %d", q, m.ID, id)
		}
		seen[id] = true
	}
	if len(seen) < 25 {
		t.Errorf("got %d different IDs in 50 queries", len(seen))
	}
}
