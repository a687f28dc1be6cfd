package top

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/test/golden"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.Local)

// world is a Model with a simulated daemon.
type world struct {
	*Model
	at      time.Time
	queries uint64
}

func newWorld() *world { return &world{Model: New(), at: noon} }

// query sends an answered query. Zero fields get usual values.
func (w *world) query(e control.MonitorEvent, took time.Duration) {
	n := took.Nanoseconds()
	e.Kind, e.Time, e.Took = control.KindQuery, w.at, &n
	if e.Client == "" {
		e.Client, e.Pod = "10.128.0.14", "shop/web-7d9f4"
	}
	if e.Type == "" {
		e.Type = "A"
	}
	if e.Rcode == "" {
		e.Rcode = "NOERROR"
	}
	if e.By == "" {
		e.By = "hit"
	}
	w.queries += max(e.Queries, 1)
	w.Take(e)
}

// second ends a second with a status event.
func (w *world) second() {
	w.at = w.at.Add(time.Second)
	s := &control.Status{
		Now: w.at, Ready: true, Node: control.Node{Name: "node-7", IP: "192.0.2.10"},
		Queries: control.Queries{UDP: w.queries},
		Cache:   control.Cache{Entries: 312, Size: 10000, Hits: w.queries * 9 / 10, Misses: w.queries / 10},
		Routes: []control.Route{
			{Domain: ".", Servers: []control.Server{
				{Address: "10.0.0.2", State: "up", RTT: 980 * time.Microsecond, Queries: w.queries / 10},
				{Address: "10.0.0.3", State: "down", Queries: 70, Failures: w.queries / 100},
			}},
			{Domain: "corp.example.", Servers: []control.Server{{Address: "10.0.0.2", State: "up", RTT: 980 * time.Microsecond, Queries: w.queries / 10}}},
		},
		LastMinute: &control.LastMinute{Over: time.Minute, Queries: w.queries, Responses: w.queries, P50: 250 * time.Microsecond, P99: 4 * time.Millisecond, NXDomain: w.queries / 4, ServFail: 3},
	}
	w.Take(control.MonitorEvent{Kind: control.KindStatus, Time: w.at, Status: s})
}

// busy is a world with entries in every table.
func busy() *world {
	w := newWorld()
	w.second()
	for range 10 {
		for range 40 {
			w.query(control.MonitorEvent{Name: "www.example.com.", Queries: 3}, 50*time.Microsecond)
		}
		w.query(control.MonitorEvent{Name: "api.shop.svc.cluster.local.", By: "cluster"}, 100*time.Microsecond)
		w.query(control.MonitorEvent{Name: "www.example.com.shop.svc.cluster.local.", By: "cluster", Rcode: "NXDOMAIN"}, 100*time.Microsecond)
		w.query(control.MonitorEvent{Name: "a-name-that-is-longer-than-its-column-of-the-table.corp.example.", Type: "AAAA", By: "upstream", Server: "10.0.0.2", Client: "192.0.2.10"}, 180*time.Millisecond)
		w.query(control.MonitorEvent{Name: "gone.example.", By: "failed", Rcode: "SERVFAIL", Why: "no response from 10.0.0.3 (timed out)", Client: "10.128.0.99"}, 2*time.Second)
		w.second()
	}
	w.Take(control.MonitorEvent{Kind: control.KindChange, Time: w.at, Change: "upstream down", Details: "server=10.0.0.3 rtt=193µs"})
	w.Take(control.MonitorEvent{Kind: control.KindLost, Time: w.at, Queries: 12})
	return w
}

func textOf(m *Model, width, height int) string {
	var out strings.Builder
	for _, line := range m.Frame(width, height) {
		fmt.Fprintln(&out, line.Text())
	}
	return out.String()
}

func press(m *Model, keys ...Key) {
	for _, k := range keys {
		m.Press(k)
	}
}

func characters(text string) (keys []Key) {
	for _, r := range text {
		keys = append(keys, Key(r))
	}
	return keys
}

// TestFrames compares frames on a small and on a large terminal with golden files.
func TestFrames(t *testing.T) {
	for _, test := range []struct {
		name  string
		world func() *world
		keys  []Key
	}{
		{name: "names", world: busy},
		{name: "clients", world: busy, keys: []Key{"2"}},
		{name: "answers", world: busy, keys: []Key{"3"}},
		{name: "servers", world: busy, keys: []Key{"4"}},
		{name: "slow", world: busy, keys: []Key{"5"}},
		{name: "failing", world: busy, keys: []Key{"6"}},
		{name: "sorted by name, reversed", world: busy, keys: []Key{"S", "r"}},
		{name: "typing", world: busy, keys: append([]Key{"/"}, characters("shop/")...)},
		{name: "help", world: busy, keys: []Key{"?"}},
		{name: "paused", world: busy, keys: []Key{"p"}},
		{name: "nothing yet", world: newWorld},
		{name: "away", world: func() *world {
			w := busy()
			w.Unconnected(fmt.Errorf("node-dns is not running"))
			return w
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := test.world()
			press(w.Model, test.keys...)
			file := strings.ReplaceAll(strings.ReplaceAll(test.name, ",", ""), " ", "-")
			golden.Check(t, filepath.Join("testdata", file+"-80x24.txt"), textOf(w.Model, 80, 24))
			if test.name == "names" || test.name == "failing" {
				golden.Check(t, filepath.Join("testdata", file+"-200x50.txt"), textOf(w.Model, 200, 50))
			}
		})
	}
}

// TestFrameFits proves that a frame always has the size of the screen.
func TestFrameFits(t *testing.T) {
	w := busy()
	for range views {
		for _, size := range [][2]int{{80, 24}, {200, 50}, {40, 8}, {139, 29}, {140, 30}, {41, 60}, {300, 9}, {10, 3}, {1, 1}, {0, 0}} {
			lines := w.Frame(size[0], size[1])
			if len(lines) > size[1] || size[0] >= leastWidth && size[1] >= leastHeight && len(lines) != size[1] {
				t.Errorf("%v: got %d lines", size, len(lines))
			}
			for _, line := range lines {
				n := 0
				for _, s := range line {
					n += len(s.Text)
				}
				if n != size[0] {
					t.Errorf("%v: got a line of width %d", size, n)
				}
			}
		}
		w.Press(KeyTab)
	}
}

// TestHostile proves that the output is printable ASCII, whatever a name, a pod or a log line
// contains.
func TestHostile(t *testing.T) {
	const hostile = "\x1b[2J\x1b]0;pwn\x07\r\n\u009b\u202e\xff漢😀"
	w := newWorld()
	w.second()
	w.query(control.MonitorEvent{Name: hostile, Client: hostile, Pod: hostile, Type: hostile, Rcode: hostile, By: hostile, Server: hostile, Why: hostile}, time.Second)
	w.Take(control.MonitorEvent{Kind: control.KindChange, Time: w.at, Change: hostile, Details: hostile})
	w.status.Node.Name = hostile
	w.Unconnected(fmt.Errorf("%s", hostile))
	press(w.Model, append([]Key{"/"}, characters(hostile)...)...)
	seen := false
	for range 6 {
		for _, size := range [][2]int{{80, 24}, {200, 50}} {
			for _, line := range w.Frame(size[0], size[1]) {
				text := line.Text()
				seen = seen || strings.Contains(text, "pwn")
				for _, r := range text {
					if r < ' ' || r > '~' {
						t.Fatalf("got %q", text)
					}
				}
			}
		}
		w.isTyping = false
		w.Press(KeyTab)
	}
	if !seen {
		t.Error("no frame contains the text, so the test proves nothing")
	}
}

// TestFilter proves that only matching queries are counted after the filter is set.
func TestFilter(t *testing.T) {
	for _, test := range []struct {
		filter string
		want   string // counted names
	}{
		{"", "api.cluster. www.example."},
		{"SHOP/web", "www.example."},
		{"10.128.0.2", "api.cluster."},
		{"example", "www.example."},
		{"cluster", "api.cluster."},
		{"aaaa", "api.cluster."},
		{"nothing", ""},
	} {
		w := newWorld()
		w.query(control.MonitorEvent{Name: "before.example."}, 0)
		press(w.Model, append([]Key{"/"}, append(characters(test.filter+"x"), KeyBackspace, KeyEnter)...)...)
		if test.filter == "" {
			w.clear()
		}
		w.query(control.MonitorEvent{Name: "www.example."}, 0)
		w.query(control.MonitorEvent{Name: "api.cluster.", Client: "10.128.0.2", Type: "AAAA", By: "cluster"}, 0)
		press(w.Model, "S")
		var names []string
		for _, r := range w.sorted(0) {
			names = append(names, r.cells[0].text)
		}
		if got := strings.Join(names, " "); got != test.want {
			t.Errorf("%q: got %q", test.filter, got)
		}
	}
}

// TestRates proves that a rate is correct soon after its start and after a change.
func TestRates(t *testing.T) {
	w := newWorld()
	rateOf := func() float64 {
		rows := w.sorted(0)
		if len(rows) == 0 {
			return 0
		}
		return rows[0].cells[1].number
	}
	w.second()
	for _, step := range []struct {
		seconds, each int
		least, most   float64
	}{
		{2, 100, 90, 110},
		{20, 100, 95, 105},
		{30, 1000, 900, 1050},
		{60, 0, 0, 5},
	} {
		for range step.seconds {
			if step.each > 0 {
				w.query(control.MonitorEvent{Name: "a.", Queries: uint64(step.each)}, 0)
			}
			w.second()
		}
		if got := rateOf(); got < step.least || got > step.most {
			t.Errorf("%d seconds with %d queries per second: got rate %.1f", step.seconds, step.each, got)
		}
	}
}

// TestClocks proves that no number becomes negative or infinite after the daemon restarts or its
// clock is set back.
func TestClocks(t *testing.T) {
	w := busy()
	w.at, w.queries = noon.Add(-time.Hour), 0
	for range 3 {
		w.query(control.MonitorEvent{Name: "a."}, 0)
		w.second()
		for range views {
			w.Press(KeyTab)
			if text := textOf(w.Model, 80, 24); strings.Contains(text, "-1") || strings.Contains(text, "Inf") || strings.Contains(text, "NaN") {
				t.Error(text)
			}
		}
	}
}

// TestKeys covers keys that TestFrames does not.
func TestKeys(t *testing.T) {
	w := newWorld()
	w.second()
	for i := range 50 {
		w.query(control.MonitorEvent{Name: fmt.Sprintf("%02d.example.", i)}, 0)
	}
	press(w.Model, "S") // by name
	first := func() string { return strings.Fields(w.Frame(80, 24)[5].Text())[0] }
	for _, step := range []struct {
		keys []Key
		want string
	}{
		{nil, "00.example."},
		{[]Key{KeyUp}, "00.example."},
		{[]Key{KeyDown, "j"}, "02.example."},
		{[]Key{KeyPageDown}, "12.example."},
		{[]Key{KeyPageDown, KeyPageDown, KeyPageDown, KeyPageDown}, "32.example."},
		{[]Key{"k"}, "31.example."},
		{[]Key{KeyHome}, "00.example."},
		{[]Key{"r"}, "49.example."},
		{[]Key{"c"}, "nothing"},
	} {
		press(w.Model, step.keys...)
		if got := first(); got != step.want {
			t.Errorf("%q: got %s, want %s", step.keys, got, step.want)
		}
	}
	for _, test := range []struct {
		keys  []Key
		quits bool
	}{
		{[]Key{"q"}, true},
		{[]Key{KeyInterrupt}, true},
		{[]Key{"/", "q"}, false},
		{[]Key{"/", KeyInterrupt}, true},
		{[]Key{"?", "q"}, false},
		{[]Key{"x", "", "F13"}, false},
	} {
		m, quits := New(), false
		for _, k := range test.keys {
			quits = m.Press(k)
		}
		if quits != test.quits {
			t.Errorf("%q: got %t", test.keys, quits)
		}
	}
}

// TestPaused proves that events during a pause are not shown later.
func TestPaused(t *testing.T) {
	w := newWorld()
	w.second()
	press(w.Model, "p")
	w.query(control.MonitorEvent{Name: "a.example."}, 0)
	if press(w.Model, "p"); len(w.names.Entries) != 0 {
		t.Error("the query was counted")
	}
}

// TestForgets proves that slow and failing names are forgotten and that nothing grows without
// limit.
func TestForgets(t *testing.T) {
	w := newWorld()
	w.second()
	for i := range 3 * maxKeys {
		name := fmt.Sprintf("%d.example.", i)
		w.query(control.MonitorEvent{Name: name, Client: name, By: name, Server: name, Rcode: "SERVFAIL"}, time.Second)
	}
	for _, n := range []int{len(w.names.Entries), len(w.clients.Entries), len(w.answers.Entries), len(w.slow.Entries), len(w.failing.Entries)} {
		if n != maxKeys {
			t.Errorf("got %d entries", n)
		}
	}
	w.at = w.at.Add(remembered)
	w.second()
	w.at = w.at.Add(remembered)
	w.second()
	if len(w.slow.Entries)+len(w.failing.Entries) > 0 {
		t.Error("the names were not forgotten")
	}
	if len(w.earlier) > statuses {
		t.Errorf("got %d statuses", len(w.earlier))
	}
}

// Text returns the line without styles.
func (l Line) Text() string {
	text := ""
	for _, s := range l {
		text += s.Text
	}
	return strings.TrimRight(text, " ")
}
