package dnstest

import (
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// TestLoad: unanswered questions are lost, unexpected answers are wrong, and a connection that is
// closed before the answer is retried once.
func TestLoad(t *testing.T) {
	server := NewServer(t, "a.example. 60 IN A 192.0.2.1\nsilent.example. 60 IN A 192.0.2.1\n*.many.example. 60 IN A 192.0.2.1\n")
	server.SetFaultsFor("silent.example.", Faults{Drop: true})
	running, err := Load{
		Server: server.Addr(), Rate: 500, Clients: []netip.Addr{netip.MustParseAddr("127.0.0.2"), netip.MustParseAddr("127.0.0.3")},
		Asks: []Ask{
			{Name: "a.example.", Type: dns.TypeA, Want: "192.0.2.1"},
			{Name: "n%d.many.example.", Type: dns.TypeA, Want: "192.0.2.1", TCP: true},
			{Name: "a.example.", Type: dns.TypeA, Want: "192.0.2.2"},
			{Name: "a.example.", Type: dns.TypeA},
			{Name: "none.example.", Type: dns.TypeA},
			{Name: "none.example.", Type: dns.TypeA, Want: "192.0.2.1"},
			{Name: "silent.example.", Type: dns.TypeA, Want: "192.0.2.1"},
		},
	}.Start()
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond)
	server.CloseConnections()
	time.Sleep(100 * time.Millisecond)
	tally := running.Stop()
	whole := tally.Asked / 7
	if tally.Asked < 14 || tally.Wrong < 3*whole || tally.Wrong > 3*(whole+1) || tally.Lost < whole || tally.Lost > whole+1 || tally.Dropped > 0 {
		t.Errorf("%v", tally)
	}
	for _, want := range []string{`a.example. A (TCP false)`, `NOERROR "192.0.2.1"`, `NXDOMAIN ""`} {
		if !strings.Contains(tally.String(), want) {
			t.Errorf("%v does not contain %s", tally, want)
		}
	}
}

// TestLoadCounts: the Load sends exactly Count questions, reports the result of each, and retries
// truncated ones over TCP.
func TestLoadCounts(t *testing.T) {
	server := NewServer(t, "*. 60 IN A 192.0.2.1\n")
	server.SetFaults(Faults{Truncate: true})
	server.SetFaultsFor("bad.example.", Faults{Rcode: dns.RcodeServerFailure})
	var mu sync.Mutex
	told := map[string]Answer{}
	running, err := Load{
		Server: server.Addr(), Rate: 10_000, Count: 40, Sockets: 3, Window: 2,
		Asks: []Ask{{Name: "n%d.example.", Type: dns.TypeA, Want: "192.0.2.1"}, {Name: "bad.example.", Type: dns.TypeA, Want: "192.0.2.1"}},
		Each: func(a Answer) {
			mu.Lock()
			defer mu.Unlock()
			told[a.Name] = a
		},
	}.Start()
	if err != nil {
		t.Fatal(err)
	}
	if tally := running.Wait(); tally.Asked != 40 || tally.Lost > 0 || tally.Wrong != 20 || server.Queries() != 60 {
		t.Errorf("%v, %d queries", tally, server.Queries())
	}
	if len(told) != 21 || told["n0.example."].Fault != "" || told["n0.example."].Msg == nil || told["bad.example."].Fault == "" {
		t.Errorf("reported %v", told)
	}
}
