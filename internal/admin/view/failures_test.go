package view

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// TestFailuresOfMinute proves that failures are counted by route, client and reason over the same
// period as the other counters.
func TestFailuresOfMinute(t *testing.T) {
	began := time.Now()
	var m LastMinute
	f := newFailures()
	at := func(seconds int, queries, unanswered uint64) Counted {
		return Counted{at: began.Add(time.Duration(seconds) * time.Second), Routes: []control.RouteMinute{
			{Domain: "corp.example.", Queries: queries, Unanswered: unanswered}, {Domain: ".", Queries: 7 * queries},
		}}
	}
	failed := func(times int, client, route, reason string, rcode int) {
		for range times {
			f.add(client, route, reason, rcode)
		}
	}
	sample := func(seconds int, queries, unanswered uint64) {
		s := at(seconds, queries, unanswered)
		s.failed = f.take()
		m.add(s)
	}
	failed(9, "10.128.0.7", ".", "before the period", dns.RcodeServerFailure)
	sample(0, 10, 10)
	failed(30, "10.128.0.9", "corp.example.", "no response", dns.RcodeServerFailure)
	sample(10, 40, 30)
	failed(8, "10.128.0.9", "corp.example.", "failed recently", dns.RcodeServerFailure)
	failed(2, "10.128.0.8", "cluster.local.", "not ready", dns.RcodeServerFailure)
	sample(20, 50, 40)
	failed(3, "10.128.0.9", "", "too many queries per second", dns.RcodeRefused)
	now := at(60, 60, 50)
	now.failed = f.read()
	got := m.since(now)
	if got.Recorded != 43 {
		t.Errorf("recorded %d failures, want 43", got.Recorded)
	}
	wantRoutes := []control.RouteMinute{{Domain: "corp.example.", Queries: 50, Unanswered: 40, ServFail: 38}, {Domain: "cluster.local.", ServFail: 2}}
	if diff := cmp.Diff(wantRoutes, got.Routes); diff != "" {
		t.Errorf("routes (-want +got):\n%s", diff)
	}
	wantClients := []control.ClientMinute{{Client: "10.128.0.9", ServFail: 38, Refused: 3}, {Client: "10.128.0.8", ServFail: 2}}
	if diff := cmp.Diff(wantClients, got.Clients); diff != "" {
		t.Errorf("clients (-want +got):\n%s", diff)
	}
	wantReasons := []control.ReasonMinute{
		{Reason: "no response", ServFail: 30}, {Reason: "failed recently", ServFail: 8}, {Reason: "too many queries per second", Refused: 3}, {Reason: "not ready", ServFail: 2},
	}
	if diff := cmp.Diff(wantReasons, got.Reasons); diff != "" {
		t.Errorf("reasons (-want +got):\n%s", diff)
	}
	now = at(90, 60, 50)
	now.failed = f.read()
	if got := m.since(now); got.Recorded != 3 || len(got.Routes) != 1 || got.Routes[0].Unanswered != 10 {
		t.Errorf("half a minute later: %+v", got)
	}
}

// TestFailedReason proves that a reason is bounded, shows where it was cut, and is valid UTF-8 and
// never empty. A reason with the names of two servers once ended within a word.
func TestFailedReason(t *testing.T) {
	for want, seen := range map[string]dnsserver.Seen{
		"no response": {Why: "no response", Outcome: dnsserver.ByNobody},
		strings.Repeat("no response ", 42) + "...": {Why: strings.Repeat("no response ", 42) + "from 192.0.2.53 (timed out)", Outcome: dnsserver.ByNobody},
		strings.Repeat("é", 254) + " ...":          {Why: strings.Repeat("é", 300), Outcome: dnsserver.ByNobody},
		"a\uFFFDb":                                 {Why: "a\xffb", Outcome: dnsserver.ByNobody},
		"response of 192.0.2.53":                   {Outcome: dnsserver.ByUpstream, Server: nameserver.MustParse("192.0.2.53")},
		"response of node-dns":                     {Outcome: dnsserver.ByHandler},
	} {
		if got := failedReason(&seen); got != want {
			t.Errorf("%q: got %q, want %q", seen.Why, got, want)
		}
	}
}

// TestFailuresAreBounded proves that the lists stay short and the record small, and that a client
// with many failures is found among many others.
func TestFailuresAreBounded(t *testing.T) {
	f := newFailures()
	for i := range 1000 {
		f.add(fmt.Sprintf("client %d", i), fmt.Sprintf("route %d", i), fmt.Sprintf("reason %d", i), dns.RcodeServerFailure)
		f.add("10.128.0.9", ".", "no response", dns.RcodeServerFailure)
	}
	s := f.take()
	clients, routes, reasons := len(s.counts[byClient]), len(s.counts[byRoute]), len(s.counts[byReason])
	if clients != 64 || routes != 32 || reasons != 16 {
		t.Errorf("%d clients, %d routes, %d reasons", clients, routes, reasons)
	}
	if n := s.counts[byClient]["10.128.0.9"].servFail; s.recorded != 2000 || n != 1000 {
		t.Errorf("recorded %d, of the client %d", s.recorded, n)
	}
	if got := s.clientMinutes(); len(got) != shownFailed || got[0].Client != "10.128.0.9" {
		t.Errorf("shown clients: %v", got)
	}
	if routes := s.routeMinutes(nil, nil); len(routes) != shownFailed || routes[0].Domain != "." {
		t.Errorf("shown routes: %v", routes)
	}
	if again := f.take(); again.recorded != 0 || len(again.counts[byClient]) != 0 {
		t.Errorf("after take: %+v", again)
	}
}
