package cache

import (
	"fmt"
	"testing"

	"github.com/miekg/dns"
)

// TestDenials: responses without an answer have their own counts of insertions, hits and evictions.
func TestDenials(t *testing.T) {
	const denial = "authority\nexample. 60 IN SOA ns.example. hostmaster.example. 1 3600 600 86400 60"
	u := &upstream{t: t, records: map[string]string{"www.example. A": "www.example. 60 IN A 192.0.2.1", "www.example. AAAA": denial}}
	for i := range 10 {
		u.records[fmt.Sprintf("n%d.example. A", i)] = denial
	}
	c := New(Config{Next: u, Size: 2})
	for range 3 {
		ask(t, c, query("www.example.", dns.TypeA, flags{}))
	}
	for range 2 {
		ask(t, c, query("www.example.", dns.TypeAAAA, flags{}))
	}
	if s := c.Stats(); s.Entries != 2 || s.Denials != 1 || s.Hits != 3 || s.DenialHits != 1 || s.Misses != 2 {
		t.Errorf("got stats %+v", s)
	}
	for i := range 10 {
		ask(t, c, query(fmt.Sprintf("n%d.example.", i), dns.TypeA, flags{}))
	}
	if s := c.Stats(); s.Entries != 2 || s.DenialEvictions == 0 || s.Evictions-s.DenialEvictions > 1 {
		t.Errorf("got stats %+v", s)
	}
	c.Flush(nil)
	if s := c.Stats(); s.Denials != 0 {
		t.Errorf("got %d denials in an empty cache", s.Denials)
	}
}
