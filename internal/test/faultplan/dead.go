package faultplan

import (
	"fmt"
	"sync"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/test/dnstest"
)

// Facts of the rows in which all upstream nameservers are dead.
const (
	recovery   = "recovery, s" // from the return of the first upstream nameserver to the first right answer
	unanswered = "not right after 1 s more"
)

// allDead are the rows in which no upstream nameserver answers.
func allDead() []Row {
	return []Row{
		{
			Name: "A and B dead, uncached names", Promise: "SERVFAIL with EDE within 2 s, never silence; the first answer at most 1 s after the return",
			play: dead(vanish), want: wantFailures,
		},
		{
			Name: "A and B hang, uncached names", Promise: "SERVFAIL with EDE within 4.6 s, never silence; the first answer at most 1 s after the return",
			play: dead(hang), want: wantFailures,
		},
		{
			Name: "A and B dead, expired cached names", Promise: "served stale, TTL 30, EDE 3, p99 ≤ 50 ms",
			records: "*. 1 IN A " + address, play: expired, want: wantStale,
		},
	}
}

// vanish makes the network lose all upstream nameservers.
func vanish(s *stage) {
	for _, server := range s.up {
		server.Vanish()
	}
}

// hang makes all upstream nameservers accept connections without answering. They may just be slow,
// so the program must wait for them.
func hang(s *stage) { s.faults(dnstest.Faults{Drop: true}) }

// dead simulates an outage of all upstream nameservers, after which A answers again.
func dead(vanish func(*stage)) func(*stage) error {
	return func(s *stage) error {
		vanish(s)
		return s.untilBack()
	}
}

func (s *stage) untilBack() error {
	before := s.queries()
	if err := s.ask(dnstest.Load{Asks: distinct("n")}, s.main, func() { s.pass(1) }); err != nil {
		return err
	}
	s.count(s.queries() - before)
	after := returned{tally: new(tally), at: time.Now()}
	s.up[0].SetFaults(dnstest.Faults{})
	err := s.ask(dnstest.Load{Asks: distinct("back"), Each: after.take}, after.tally, func() { time.Sleep(2 * time.Second) })
	s.note(recovery, after.first.Seconds())
	s.note(unanswered, float64(after.notRight))
	return err
}

// returned counts the answers after a nameserver is back.
type returned struct {
	*tally
	at time.Time

	mu       sync.Mutex // guards the fields below
	first    time.Duration
	notRight int
}

func (r *returned) take(a dnstest.Answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	right := a.Msg != nil && a.Fault == ""
	if came := a.Asked.Add(a.Took).Sub(r.at); right && (r.first == 0 || came < r.first) {
		r.first = came
	}
	if !right && a.Asked.Sub(r.at) > time.Second {
		r.notRight++
	}
}

func wantFailures(o Outcome) string {
	switch {
	case o.Failed < o.Asked || o.Unexplained > 0:
		return "not all clients got an error with a reason"
	case o.Fact(recovery) == 0 || o.Fact(unanswered) > 0:
		return "not all are answered a second after A is back"
	}
	return ""
}

// hotNames is the number of popular names.
const hotNames = 100

// expired simulates an outage in which the cached answers are older than their TTL.
func expired(s *stage) error {
	asks := known("hot", hotNames)
	if err := s.ask(s.once(hotNames, asks, crowd(4)), new(tally), func() {}); err != nil {
		return err
	}
	s.faults(dnstest.Faults{Drop: true})
	time.Sleep(2 * time.Second) // longer than the TTL, which is in whole seconds
	return s.ask(dnstest.Load{Asks: asks}, s.main, func() { s.pass(1) })
}

// staleTTL is that of RFC 8767 section 4.
const staleTTL = 30

func wantStale(o Outcome) string {
	if fault := allRight(o); fault != "" {
		return fault
	}
	if o.Stale < o.Asked || o.LongestTTL > staleTTL {
		return fmt.Sprintf("%d are not marked as stale; the longest TTL is %d s", o.Asked-o.Stale, o.LongestTTL)
	}
	return ""
}

// known queries n names in turn.
func known(prefix string, n int) (asks []dnstest.Ask) {
	for i := range n {
		asks = append(asks, dnstest.Ask{Name: fmt.Sprintf("%s%d.example.", prefix, i), Type: dns.TypeA, Want: address})
	}
	return asks
}
