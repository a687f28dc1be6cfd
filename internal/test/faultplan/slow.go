package faultplan

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/test/dnstest"
)

// Facts of the rows about slow and unreliable upstream nameservers.
const fromB = "from B, %"

// latencies are delays of all upstream nameservers for every name. Clients with glibc retry after 5
// s.
var latencies = []time.Duration{
	500 * time.Millisecond, time.Second, 1700 * time.Millisecond, 2500 * time.Millisecond, 3500 * time.Millisecond, 4200 * time.Millisecond,
}

// slowOnes are the rows with slow or lying upstream nameservers.
func slowOnes() (rows []Row) {
	for _, latency := range latencies {
		rows = append(rows, Row{
			Name: fmt.Sprintf("A and B answer after %v", latency), Promise: "≥ 99.5 %, from the first question on",
			play: latencyOfAll(latency), want: wantPatience,
		})
	}
	for which, name := range []string{"A", "B"} {
		rows = append(rows, Row{
			Name: name + " answers after 2 s, beside 50 qps of names that no server answers", Promise: "normal names 100 %, p99 ≤ 33 ms",
			play: slowBesideSilent(which), want: wantSilentFailed,
		})
	}
	return append(rows, Row{
		Name: "A loses 5 %, B says NXDOMAIN", Promise: "100 %, at most 10 % from B", Timed: true, play: liar, want: wantFewLies,
	})
}

// latencyOfAll simulates a constant delay of all upstream nameservers.
func latencyOfAll(latency time.Duration) func(*stage) error {
	return func(s *stage) error {
		s.faults(dnstest.Faults{Delay: latency})
		return s.ask(dnstest.Load{Asks: distinct("n")}, s.main, func() { s.pass(1) })
	}
}

func wantPatience(o Outcome) string {
	if answered := o.Right + o.Late; o.Asked == 0 || float64(answered) < 0.995*float64(o.Asked) {
		return fmt.Sprintf("%d of %d were answered", answered, o.Asked)
	}
	return ""
}

// slowBesideSilent simulates one slow upstream nameserver, and names that no server answers.
func slowBesideSilent(which int) func(*stage) error {
	return func(s *stage) error {
		s.up[which].SetFaults(dnstest.Faults{Delay: 2 * patience})
		return silentSame(s)
	}
}

// liar simulates a B that answers NXDOMAIN for every name. Clients notice only if the program does
// not wait for A.
func liar(s *stage) error {
	s.up[0].SetFaults(dnstest.Faults{Loss: 0.05})
	s.up[1].SetFaults(dnstest.Faults{Rcode: dns.RcodeNameError})
	var lies atomic.Int64
	take := func(a dnstest.Answer) {
		if a.Msg != nil && a.Msg.Rcode == dns.RcodeNameError {
			lies.Add(1)
			return
		}
		s.main.take(a)
	}
	err := s.ask(dnstest.Load{Asks: distinct("n"), Each: take}, s.main, func() { s.pass(2) })
	told := float64(lies.Load())
	s.note(fromB, 100*told/max(told+float64(s.main.outcome().Asked), 1))
	return err
}

func wantFewLies(o Outcome) string {
	if share := o.Fact(fromB); share > 10 {
		return fmt.Sprintf("%.1f %% are B's", share)
	}
	return allRight(o)
}
