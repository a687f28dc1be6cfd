package view

import (
	"bytes"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsserver"
)

func seenOf(t testing.TB, name string, qtype uint16, client string, rcode int) dnsserver.Seen {
	t.Helper()
	query := new(dns.Msg).SetQuestion(name, qtype)
	wire, err := query.Pack()
	if err != nil {
		t.Fatal(err)
	}
	response, err := new(dns.Msg).SetRcode(query, rcode).Pack()
	if err != nil {
		t.Fatal(err)
	}
	return dnsserver.Seen{Query: wire, Response: response, Client: netip.AddrPortFrom(netip.MustParseAddr(client), 4242), Proto: dnsserver.UDP}
}

func TestFilter(t *testing.T) {
	type row struct {
		name                        string
		client, pattern, typ, rcode string
		want                        bool
	}
	www := seenOf(t, "www.Example.com.", dns.TypeA, "10.128.0.14", dns.RcodeNameError)
	for _, test := range []row{
		{name: "no filter", want: true},
		{name: "its client", client: "10.128.0.14", want: true},
		{name: "its client as IPv6 writes it", client: "::ffff:10.128.0.14", want: true},
		{name: "its network", client: "10.128.9.9/14", want: true},
		{name: "another client", client: "10.128.0.15"},
		{name: "another network", client: "10.0.0.0/24"},
		{name: "a client of another family", client: "2001:db8::/32"},
		{name: "its name", pattern: "WWW.example.com", want: true},
		{name: "its name with a dot", pattern: "www.example.com.", want: true},
		{name: "its domain", pattern: "example.com", want: true},
		{name: "the root", pattern: ".", want: true},
		{name: "half a label", pattern: "w.example.com"},
		{name: "a name below", pattern: "a.www.example.com"},
		{name: "leading wildcard", pattern: "*.example.com", want: true},
		{name: "trailing wildcard", pattern: "www*", want: true},
		{name: "wildcards on both sides", pattern: "*exam*", want: true},
		{name: "wildcard in the middle", pattern: "w*.com", want: true},
		{name: "wildcard that needs more text", pattern: "*ple*e.com", want: false},
		{name: "wildcard that must backtrack", pattern: "*w.ex*m", want: true},
		{name: "its type", typ: "a", want: true},
		{name: "its type as a number", typ: "TYPE1", want: true},
		{name: "another type", typ: "AAAA"},
		{name: "its rcode", rcode: "nxdomain", want: true},
		{name: "another rcode", rcode: "NOERROR"},
		{name: "all of it", client: "10.128.0.0/14", pattern: "*.com", typ: "A", rcode: "3", want: true},
		{name: "all but one", client: "10.128.0.0/14", pattern: "*.org", typ: "A", rcode: "3"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f, err := NewFilter(test.client, test.pattern, test.typ, test.rcode)
			if err != nil {
				t.Fatal(err)
			}
			if got := f.matches(&www); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

func TestFilterMistakes(t *testing.T) {
	for _, test := range [][4]string{
		{"host"},
		{"10.0.0.0/33"},
		{"10.0.0"},
		{"", "a..b"},
		{"", string(bytes.Repeat([]byte("x"), 64))},
		{"", "", "NOTYPE"},
		{"", "", "TYPE0"},
		{"", "", "TYPE65536"},
		{"", "", "", "NO"},
		{"", "", "", "4096"},
	} {
		if _, err := NewFilter(test[0], test[1], test[2], test[3]); err == nil {
			t.Errorf("%q was accepted", test)
		}
	}
}

// TestOddQueries proves that a query without a readable question, or with a name that is not a
// valid host name, is shown without control characters.
func TestOddQueries(t *testing.T) {
	withName := func(labels string) dnsserver.Seen {
		wire := append(make([]byte, 12), labels...)
		wire[5] = 1
		return dnsserver.Seen{Query: append(wire, 0, 1, 0, 1), Outcome: dnsserver.ByServer}
	}
	none := NewFilterMust(t, "", "example", "", "")
	for _, test := range []struct {
		name       string
		seen       dnsserver.Seen
		shown, typ string
	}{
		{"nothing", dnsserver.Seen{}, "", ""},
		{"a header alone", dnsserver.Seen{Query: make([]byte, 12)}, "", ""},
		{"a truncated name", withName("\x3fabc"), "", ""},
		{"a pointer", withName("\xc0\x0c"), "", ""},
		{"an escape sequence", withName("\x05a\x1b[2J\x00"), `a\027[2J.`, "A"},
		{"a line break", withName("\x03a\nb\x00"), `a\010b.`, "A"},
		{"bytes beyond ASCII", withName("\x03\x9b\xff \x00"), `\155\255\ .`, "A"},
		{"a dot in a label", withName("\x03a.b\x00"), `a\.b.`, "A"},
		{"the root", withName("\x00"), ".", "A"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := seenName(&test.seen); got != test.shown {
				t.Errorf("got name %q", got)
			}
			if got := seenType(&test.seen); got != test.typ {
				t.Errorf("got type %q", got)
			}
			if none.matches(&test.seen) {
				t.Error("matches the filter for example")
			}
			if _, sent := seenRcode(&test.seen); sent {
				t.Error("got an rcode")
			}
		})
	}
}

// NewFilterMust is like NewFilter for valid arguments.
func NewFilterMust(t *testing.T, client, name, qtype, rcode string) Filter {
	t.Helper()
	f, err := NewFilter(client, name, qtype, rcode)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestNobodyIsWaitedFor proves that a watcher that does not read delays no one: its lost events are
// counted, and another watcher sees everything.
func TestNobodyIsWaitedFor(t *testing.T) {
	var hub Hub
	var watched []Attention
	hub.Watched = func(of Attention) { watched = append(watched, of) }
	asleep, err := hub.Watch(WatchConfig{})
	if err != nil {
		t.Fatal(err)
	}
	awake, err := hub.Watch(WatchConfig{Filter: NewFilterMust(t, "", "", "A", "")})
	if err != nil {
		t.Fatal(err)
	}
	const many = 3 * room
	a, aaaa := seenOf(t, "a.example.", dns.TypeA, "10.0.0.1", 0), seenOf(t, "a.example.", dns.TypeAAAA, "10.0.0.1", 0)
	for range many {
		hub.Query(a)
		hub.Query(aaaa)
		if event := <-awake.Events; seenType(event.Query) != "A" {
			t.Fatal("got an event that the filter excludes")
		}
	}
	slog.New(hub.Tee(slog.DiscardHandler)).Info("a change")
	if n := len(asleep.Events); n != room-kept+1 {
		t.Errorf("%d events wait for the sleeping watcher", n)
	}
	if lost := asleep.Lost(); lost != 2*many-(room-kept) {
		t.Errorf("sleeping watcher lost %d", lost)
	}
	if lost := awake.Lost(); lost != 0 {
		t.Errorf("other watcher lost %d", lost)
	}
	asleep.Close()
	awake.Close()
	awake.Close()
	if !slices.Equal(watched, []Attention{All, Nothing}) {
		t.Errorf("got attention values %v", watched)
	}
}

// TestLostSamples: a dropped sample counts as all the queries it stands for. It was counted as one.
func TestLostSamples(t *testing.T) {
	var hub Hub
	w, err := hub.Watch(WatchConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	seen := seenOf(t, "a.example.", dns.TypeA, "10.0.0.1", 0)
	for range room - kept {
		hub.Query(seen)
	}
	for _, test := range []struct {
		name   string
		stands int
		want   uint64
	}{{"a query that is no sample", 0, 1}, {"a sample of 64", 64, 64}} {
		seen.Stands = test.stands
		if hub.Query(seen); w.Lost() != test.want {
			t.Errorf("%s was not counted as %d", test.name, test.want)
		}
	}
	for range kept {
		w.offer(&Event{Change: "a change"})
	}
	w.offer(&Event{Change: "a change"})
	w.offer(&Event{Query: &seen})
	if lost := w.Lost(); lost != 1+64 {
		t.Errorf("lost %d with a change and a sample of 64", lost)
	}
}

// TestAttention proves that the server only samples while no watcher needs more.
func TestAttention(t *testing.T) {
	var hub Hub
	var watched []Attention
	hub.Watched = func(of Attention) { watched = append(watched, of) }
	begin := func(c WatchConfig) *Watcher {
		w, err := hub.Watch(c)
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	top := begin(WatchConfig{Sampled: true})
	another := begin(WatchConfig{Sampled: true})
	journal := begin(WatchConfig{Rate: 100})
	if n := hub.Watching(); n != 2 {
		t.Errorf("got %d watchers", n)
	}
	journal.Close()
	another.Close()
	monitor := begin(WatchConfig{})
	seen := seenOf(t, "a.example.", dns.TypeA, "10.0.0.1", 0)
	for range room - kept {
		hub.Query(seen)
	}
	if n := len(monitor.Events); n != room-kept {
		t.Errorf("monitor got %d events", n)
	}
	if n := len(top.Events); n > sampledRate || top.Lost() != uint64(max(0, room-kept-n)) {
		t.Errorf("got %d samples", n)
	}
	slog.New(hub.Tee(slog.DiscardHandler)).Info("a change")
	last := &Event{}
	for len(top.Events) > 0 {
		last = <-top.Events
	}
	if last.Change != "a change" {
		t.Errorf("got last event %+v", last)
	}
	top.Close()
	monitor.Close()
	if want := []Attention{Samples, All, Samples, All, Nothing}; !slices.Equal(watched, want) {
		t.Errorf("got attention values %v, want %v", watched, want)
	}
}

// TestKept proves that an event does not change when the server reuses its buffers.
func TestKept(t *testing.T) {
	var hub Hub
	w, err := hub.Watch(WatchConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	seen := seenOf(t, "a.example.", dns.TypeA, "10.0.0.1", dns.RcodeRefused)
	hub.Query(seen)
	clear(seen.Query)
	clear(seen.Response)
	event := <-w.Events
	if rcode, _ := seenRcode(event.Query); seenName(event.Query) != "a.example." || rcode != dns.RcodeRefused {
		t.Errorf("got %s %d", seenName(event.Query), rcode)
	}
}

func TestBounds(t *testing.T) {
	var hub Hub
	for range maxWatchers {
		w, err := hub.Watch(WatchConfig{})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
	}
	if _, err := hub.Watch(WatchConfig{}); !errors.Is(err, ErrTooMany) {
		t.Errorf("got %v for one watcher too many", err)
	}
	journal, err := hub.Watch(WatchConfig{Rate: 3})
	if err != nil {
		t.Fatalf("got %v for the journal", err)
	}
	defer journal.Close()
	second := int64(1_800_000_000)
	allowed := func(n int) (all int) {
		for range n {
			if journal.window.take(second, journal.rate) {
				all++
			}
		}
		return all
	}
	for _, want := range []int{3, 0} {
		if got := allowed(10); got != want {
			t.Errorf("got %d of 10, want %d", got, want)
		}
	}
	second++
	if got := allowed(2); got != 2 {
		t.Errorf("got %d of 2 in the next second", got)
	}
}

// TestManyAtOnce exercises the Hub for the race detector.
func TestManyAtOnce(t *testing.T) {
	var hub Hub
	seen := seenOf(t, "a.example.", dns.TypeA, "10.0.0.1", 0)
	var group sync.WaitGroup
	for range 3 {
		group.Go(func() {
			for range 2000 {
				hub.Query(seen)
			}
		})
		group.Go(func() {
			for range 200 {
				w, err := hub.Watch(WatchConfig{Rate: 100})
				if err != nil {
					t.Error(err)
					return
				}
				select {
				case <-w.Events:
				case <-time.After(time.Millisecond):
				}
				w.Lost()
				w.Close()
			}
		})
	}
	group.Wait()
	if hub.IsWatched() {
		t.Error("there are still watchers")
	}
}

// TestUnseenCostsNothing proves that a query that no watcher selects allocates no memory.
func TestUnseenCostsNothing(t *testing.T) {
	var hub Hub
	seen := seenOf(t, "www.example.com.", dns.TypeA, "10.0.0.1", 0)
	for _, f := range []Filter{
		NewFilterMust(t, "10.0.0.2", "", "", ""), NewFilterMust(t, "", "example.org", "", ""), NewFilterMust(t, "", "*.org", "", ""),
		NewFilterMust(t, "", "", "", "NXDOMAIN"), NewFilterMust(t, "", "", "AAAA", ""),
	} {
		w, err := hub.Watch(WatchConfig{Filter: f, Rate: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
	}
	if n := testing.AllocsPerRun(100, func() { hub.Query(seen) }); n != 0 {
		t.Errorf("got %v allocations", n)
	}
}

// TestTee proves that watchers get every log record, even those that the log drops.
func TestTee(t *testing.T) {
	var hub Hub
	var log bytes.Buffer
	logger := slog.New(hub.Tee(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))).With("server", "10.0.0.2")
	logger.Info("before anybody watches")
	w, err := hub.Watch(WatchConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	logger.Debug("of no interest")
	logger.Info("upstream up", "rtt", time.Millisecond)
	logger.WithGroup("g").Warn("upstream down", "error", "timed out\n")
	for _, want := range [][2]string{{"upstream up", "server=10.0.0.2 rtt=1ms"}, {"upstream down", `server=10.0.0.2 g.error="timed out\n"`}} {
		if event := <-w.Events; event.Query != nil || event.Change != want[0] || event.Details != want[1] {
			t.Errorf("got %+v, want %q", event, want)
		}
	}
	if text := log.String(); bytes.Count(log.Bytes(), []byte("\n")) != 1 || !bytes.Contains(log.Bytes(), []byte("upstream down")) {
		t.Errorf("got log %q", text)
	}
}

func FuzzQuery(f *testing.F) {
	f.Add([]byte("\x00\x01\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x01a\x00\x00\x01\x00\x01"), []byte("\x00\x01\x81\x83\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x29\x04\xd0\x01\x00\x00\x00\x00\x00"), "*a.*")
	f.Fuzz(func(t *testing.T, query, response []byte, name string) {
		seen := dnsserver.Seen{Query: query, Response: response, Outcome: dnsserver.ByServer}
		for _, r := range seenName(&seen) + seenType(&seen) {
			if r < ' ' || r > '~' {
				t.Errorf("%q is in the shown text", r)
			}
		}
		for _, line := range logLines(&seen) {
			for _, r := range line {
				if r < ' ' || r > '~' {
					t.Errorf("%q is in the log", r)
				}
			}
		}
		if filter, err := NewFilter("", name, "", ""); err == nil {
			filter.matches(&seen)
		}
	})
}
