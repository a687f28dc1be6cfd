package control

import (
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/node-dns/node-dns/internal/test/golden"
)

// TestViews checks the output of the other commands. Untrusted text must not control the terminal.
func TestViews(t *testing.T) {
	const hostile = "a\x1b[2J\nb\u202e"
	at := time.Date(2026, 11, 22, 14, 1, 58, 0, time.UTC)
	a, b := RouteTarget{Servers: []string{"10.0.0.2:53", "10.0.0.3:53"}}, RouteTarget{Servers: []string{"10.0.0.2:53"}}
	down := []Server{{Address: "10.0.0.3:53", State: "down", Error: "timeout"}, {Address: "10.0.0.2:53", State: "up"}}
	full := ServerHistory{Kept: 2, Changes: make([]RouteChange, 2)}
	for name, view := range map[string]interface{ WriteText(io.Writer) error }{
		"entry": CacheEntry{
			Name: "www.example.", Type: "A", Result: "NOERROR", TTL: 58, Age: 242, Server: "10.0.0.2:53", DO: true, CD: true, AD: true,
			Answer: []Record{{"www.example.", 58, "IN", "CNAME", "web.example."}, {"web.example.", 60, "IN", "A", "192.0.2.80"}},
		},
		"entry-stale": CacheEntry{
			Name: "www.example.", Type: "A", Result: "NOERROR", Age: 400, Stale: true, Server: "10.0.0.2:53",
			Answer: []Record{{"www.example.", 0, "IN", "A", "192.0.2.80"}},
		},
		"entry-nodata": CacheEntry{
			Name: "a.example.", Type: "AAAA", Result: "NODATA", TTL: 5, Server: "10.0.0.2:53",
			Answer: []Record{{"a.example.", 5, "IN", "CNAME", "b.example."}}, SOA: &Record{"example.", 5, "IN", "SOA", "ns. h. 1 2 3 4 5"},
		},
		"entry-failure":   CacheEntry{Name: "a.example.", Type: "A", Result: "SERVFAIL", TTL: 1, Answer: []Record{}},
		"entry-hostile":   CacheEntry{Name: hostile, Type: hostile, Result: hostile, Server: hostile, Answer: []Record{{hostile, 1, hostile, hostile, hostile}}},
		"flushed":         CacheFlushed{Entries: 4812},
		"flushed-one":     CacheFlushed{Entries: 1},
		"stats":           CacheStats{Entries: 4812, Size: 10000, Bytes: 1 << 20, MaxBytes: 10 << 20, Hits: 914, Misses: 86, Stale: 17, Prefetched: 3, Insertions: 90, Evictions: 1, Results: CacheResults{4000, 100, 700, 2, 30, 10}},
		"stats-off":       CacheStats{},
		"stats-unused":    CacheStats{Size: 10000, MaxBytes: 10 << 20},
		"brief-ready":     Status{Ready: true, Notes: []string{"a note"}}.Brief(),
		"brief-starting":  Status{}.Brief(),
		"brief-not-ready": Status{Problems: []string{"not listening because " + hostile}}.Brief(),
		"brief-degraded":  Status{Ready: true, Routes: []Route{{Domain: ".", Servers: down}}, Problems: []string{"10.0.0.3:53 (for .) is down: timeout"}}.Brief(),
		"brief-both":      Status{Ready: true, Routes: []Route{{Domain: "corp.example.", Servers: down}}, Problems: []string{"10.0.0.3:53 (for corp.example.) is down: timeout", "some file\nhas faults"}}.Brief(),
		"slow":            slowNames(),
		"slow-not":        SlowNames{Now: at, Name: "www.example"},
		"history-empty":   ServerHistory{Kept: 32},
		"history-full":    full,
		"history": ServerHistory{Kept: 32, Changes: []RouteChange{
			{Time: at, By: "start", Differences: []RouteDifference{{Domain: ".", After: &a, Source: "NetworkManager eth0 (System eth0)"}}},
			{Time: at.Add(time.Hour), By: "origin-dns-dispatcher: eth0 dhcp4-change", Differences: []RouteDifference{
				{Domain: "home.", After: &RouteTarget{Local: true}, Source: "dnsmasq /etc/dnsmasq.d/x.conf:3"},
				{Domain: ".", Before: &a, After: &b, Source: "NetworkManager eth0 (System eth0)"},
				{Domain: "corp.example.", Before: &b},
			}, More: 3},
			{Time: at.Add(2 * time.Hour), By: "start"},
		}},
		"history-hostile": ServerHistory{Kept: 32, Changes: []RouteChange{{By: hostile, Differences: []RouteDifference{{Domain: hostile, After: &RouteTarget{Servers: []string{hostile}}, Source: hostile}}}}},
	} {
		t.Run(name, func(t *testing.T) {
			var text strings.Builder
			if err := view.WriteText(&text); err != nil {
				t.Fatal(err)
			}
			if strings.ContainsAny(text.String(), "\x1b\u202e") {
				t.Errorf("got %q", text.String())
			}
			golden.Check(t, "testdata/views/"+name+".txt", text.String())
			if strings.HasPrefix(name, "history") {
				checkJSON(t, "testdata/views/"+name+".json", view)
			}
		})
	}
}

// checkJSON compares the JSON of a value with a golden file. The tests of the Cockpit page
// (test/cockpit) read the same files.
func checkJSON(t *testing.T, path string, value any) {
	t.Helper()
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, path, string(text)+"\n")
}

// TestLastMinuteText checks the length of the period and the percentiles in the row.
func TestLastMinuteText(t *testing.T) {
	for want, l := range map[string]LastMinute{
		"Last 12s: 0 queries": {Over: 12 * time.Second},
		"Last 12s: 1 query":   {Over: 12 * time.Second, Queries: 1},
		"Last minute: 1204 queries   p50 < 0.25ms   p99 < 16ms   NXDOMAIN 62 % (search lists cause many)   SERVFAIL 2": {
			Over: 65 * time.Second, Queries: 1204, Responses: 1200, P50: 250 * time.Microsecond, P99: 16 * time.Millisecond, NXDomain: 744, ServFail: 2,
		},
		"Last minute: 4 queries   p50 < 0.50ms   p99 > 8s   NXDOMAIN 25 %   SERVFAIL 0": {
			Over: time.Minute, Queries: 4, Responses: 4, P50: 500 * time.Microsecond, NXDomain: 1,
		},
	} {
		if got := l.name() + ": " + l.text(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
