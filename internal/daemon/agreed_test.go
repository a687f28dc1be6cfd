package daemon

import (
	"errors"
	"testing"

	"github.com/node-dns/node-dns/internal/admin/view"
	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/nodeconfig"
)

// TestAgreed: the cluster domain served after each look. "" means unknown.
func TestAgreed(t *testing.T) {
	type look struct {
		domain string
		faulty bool
		wanted string // FactsWanted
		serves string
		again  bool
	}
	tests := []struct {
		name  string
		start string
		looks []look
	}{
		{"nothing changes", "a.test", []look{{domain: "a.test", serves: "a.test"}}},
		{"a change counts when two looks agree", "a.test", []look{
			{domain: "b.test", serves: "a.test", again: true},
			{domain: "b.test", serves: "b.test"},
		}},
		// Happened when node-dns.yaml was rewritten in place: it was empty for a moment, and all
		// defaults took effect.
		{"a file that is being written", "a.test", []look{
			{domain: "cluster.local", serves: "a.test", again: true},
			{domain: "b.test", serves: "a.test", again: true},
			{domain: "b.test", serves: "b.test"},
		}},
		{"changes and reverts", "a.test", []look{
			{domain: "b.test", serves: "a.test", again: true},
			{domain: "a.test", serves: "a.test"},
			{domain: "b.test", serves: "a.test", again: true},
		}},
		{"a faulty file changes nothing", "a.test", []look{
			{domain: "b.test", faulty: true, serves: "a.test"},
			{domain: "b.test", faulty: true, serves: "a.test"},
			{domain: "", faulty: true, serves: "a.test"},
		}},
		{"outdated facts change nothing", "a.test", []look{
			{domain: "b.test", wanted: "it has changed", serves: "a.test"},
			{domain: "b.test", wanted: "it has changed", serves: "a.test"},
			{domain: "b.test", serves: "a.test", again: true},
			{domain: "b.test", serves: "b.test"},
		}},
		{"unknown, then known", "", []look{
			{domain: "", faulty: true, wanted: "no facts", serves: "", again: true},
			{domain: "", faulty: true, wanted: "no facts", serves: ""},
			{domain: "b.test", serves: "", again: true},
			{domain: "b.test", serves: "b.test"},
		}},
		{"unknown, then outdated facts are used", "", []look{
			{domain: "b.test", wanted: "it has changed", serves: "", again: true},
			{domain: "b.test", wanted: "it has changed", serves: "b.test"},
		}},
		{"unknown, then a file with unrelated faults", "", []look{
			{domain: "b.test", faulty: true, serves: "", again: true},
			{domain: "b.test", faulty: true, serves: "b.test"},
		}},
	}
	config := func(domain, wanted string) nodeconfig.Config {
		c := nodeconfig.Config{FactsWanted: wanted}
		if domain != "" {
			c.ClusterDomain = dnsname.MustParse(domain)
		}
		return c
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var a agreed[nodeconfig.Config]
			running, again := config(test.start, ""), false
			for i, l := range test.looks {
				seen := &view.Host{Config: config(l.domain, l.wanted)}
				if l.faulty {
					seen.ConfigErr = errors.New("a fault")
				}
				running, again = a.next(running, seen.Config, !seen.IsConfigUsable(running))
				if running.ClusterDomain.Relative() != l.serves || again != l.again {
					t.Errorf("look %d: serves %q, again %v; want %q, %v", i+1, running.ClusterDomain.Relative(), again, l.serves, l.again)
				}
			}
		})
	}
}
