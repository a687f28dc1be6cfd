package control

import (
	"strings"
	"testing"
	"time"
)

// TestSlowNamesOf proves that a name also selects the names that search lists make of it, unless it
// ends with a dot.
func TestSlowNamesOf(t *testing.T) {
	all := SlowNames{Names: []SlowName{{Name: "db.example."}, {Name: "db.example.shop.svc.cluster.local."}, {Name: "Db.Example."}, {Name: "xdb.example."}, {Name: "db.example2."}}}
	for name, want := range map[string]string{
		"db.example":     "db.example. db.example.shop.svc.cluster.local. Db.Example.",
		"DB.example":     "db.example. db.example.shop.svc.cluster.local. Db.Example.",
		"db.example.":    "db.example. Db.Example.",
		"db":             "db.example. db.example.shop.svc.cluster.local. Db.Example. db.example2.",
		"other.example.": "",
	} {
		var got []string
		for _, n := range all.of(name).Names {
			got = append(got, n.Name)
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("%s: got %s", name, text)
		}
	}
}

// slowNames holds one name for each way to lose time.
func slowNames() SlowNames {
	last := SlowName{Type: "A", Count: 2, Worst: 4 * time.Second, Took: 2 * time.Second, At: noon.Add(-5 * time.Second), Rcode: "NOERROR", Client: "10.128.0.7", Pod: "shop/web-0"}
	with := func(name, by, why string, took time.Duration) SlowName {
		n := last
		n.Name, n.By, n.Why, n.Took = name, by, why, took
		return n
	}
	down := Server{Address: "10.0.0.3", State: "down", Since: noon.Add(-time.Minute), Queries: 7, Failures: 7, Error: "timed out"}
	s := SlowNames{Now: noon, Name: "x", Routes: []Route{
		{Domain: ".", Servers: []Server{up("10.0.0.2", time.Millisecond), down}},
		{Domain: "corp.example.", Servers: []Server{up("172.16.0.53", 150*time.Millisecond)}},
	}}
	s.Names = []SlowName{
		with("www.example.", "10.0.0.2", "", 2*time.Second),
		with("db.corp.example.", "172.16.0.53", "", 180*time.Millisecond),
		with("gone.example.", "failed", "no response from 10.0.0.3 (timed out)", 4*time.Second),
		with("web.shop.svc.cluster.local.", "cluster", "", 200*time.Millisecond),
		with("hostile\x1b[2J.example.", "stale", "because\n! \x1b", time.Second),
	}
	return s
}
