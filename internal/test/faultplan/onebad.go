package faultplan

import (
	"errors"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/test/dnstest"
)

// oneBad are the rows in which A has a fault, and B has none or a different one.
func oneBad() []Row {
	type faults = dnstest.Faults
	const fromB = "100 %, from B"
	const nothing = "100 %, the bad answer is ignored"
	rows := []Row{
		{Name: "A black-holed", Promise: "100 %, p99 ≤ 33 ms", play: bad(faults{Drop: true})},
		{Name: "A's port closed", Promise: "100 %, p99 ≤ 5 ms", play: closed},
		{Name: "A answers after 2 s", Promise: "100 %, p99 ≤ 33 ms", play: bad(faults{Delay: 2 * patience})},
		{Name: "A loses 30 %", Promise: "100 %, p99 ≤ 150 ms", play: bad(faults{Loss: 0.3})},
		{Name: "A flaps", Promise: "100 %, p99 ≤ 39 ms", play: flaps},
	}
	for _, kind := range []struct {
		name, promise string
		faults        faults
	}{
		{"A answers SERVFAIL", fromB, faults{Rcode: dns.RcodeServerFailure}},
		{"A answers REFUSED", fromB, faults{Rcode: dns.RcodeRefused}},
		{"A answers FORMERR to EDNS, always", "100 %, without EDNS or from B", faults{FormErrOnEDNS: true}},
		{"A: wrong ID", nothing, faults{WrongID: true}},
		{"A: empty question", nothing, faults{NoQuestion: true}},
		{"A: zero bytes", nothing, faults{Empty: true}},
		{"A: wrong question", nothing, faults{WrongQuestion: true}},
		{"A: wrong source", nothing, faults{WrongSource: true}},
		{"A: garbage", nothing, faults{Garbage: true}},
	} {
		rows = append(rows, Row{Name: kind.name, Promise: kind.promise, play: bad(kind.faults)})
	}
	return append(rows,
		Row{Name: "A truncates, its TCP is closed", Promise: fromB, play: closedTCP},
		Row{Name: "A truncates, its TCP resets mid-message", Promise: "100 % from B, p99 ≤ 100 ms", play: bad(faults{Truncate: true, ResetTCP: true})},
		Row{Name: "B black-holed, A answers with the wrong question, then the right answer", Promise: "100 %: it waits for the valid answer", play: falseThenTrue},
	)
}

// bad simulates an intermittent fault of A while clients send queries.
func bad(f dnstest.Faults) func(*stage) error {
	return func(s *stage) error {
		return s.through(func(a, _ *dnstest.Server) { a.SetFaults(f) }, func(a, _ *dnstest.Server) { a.SetFaults(dnstest.Faults{}) })
	}
}

// through makes a fault come and go while clients send queries. A is the upstream nameserver that
// the program has preferred so far: dnsmasq and unbound prefer the first one that answered.
func (s *stage) through(comes, goes func(a, b *dnstest.Server)) error {
	return s.throughAsking(distinct("n"), comes, goes)
}

func (s *stage) throughAsking(asks []dnstest.Ask, comes, goes func(a, b *dnstest.Server)) error {
	a, b := s.up[0], s.up[len(s.up)-1]
	return s.ask(dnstest.Load{Asks: asks}, s.main, func() {
		s.pass(0.1)
		if b.Queries() > a.Queries() {
			a, b = b, a
		}
		comes(a, b)
		s.pass(0.8)
		goes(a, b)
		s.pass(0.1)
	})
}

func closed(s *stage) (err error) {
	failed := s.through(func(a, _ *dnstest.Server) { a.Down() }, func(a, _ *dnstest.Server) { err = a.Up() })
	return errors.Join(failed, err)
}

func closedTCP(s *stage) (err error) {
	failed := s.through(func(a, _ *dnstest.Server) {
		a.SetFaults(dnstest.Faults{Truncate: true})
		a.RefuseTCP()
	}, func(a, _ *dnstest.Server) {
		a.SetFaults(dnstest.Faults{})
		a.Down()
		err = a.Up()
	})
	return errors.Join(failed, err)
}

// flaps simulates an A that is silent, answers, and is silent again, for a quarter of the time
// each.
func flaps(s *stage) error {
	return s.through(func(a, _ *dnstest.Server) {
		a.SetFaults(dnstest.Faults{Drop: true})
		s.pass(0.25)
		a.SetFaults(dnstest.Faults{})
		s.pass(0.25)
		a.SetFaults(dnstest.Faults{Drop: true})
	}, func(a, _ *dnstest.Server) { a.SetFaults(dnstest.Faults{}) })
}

// falseThenTrue simulates a silent B, and an A that sends an unrelated response before the right
// one (TuDoor).
func falseThenTrue(s *stage) error {
	return s.through(func(a, b *dnstest.Server) {
		b.SetFaults(dnstest.Faults{Drop: true})
		a.SetFaults(dnstest.Faults{WrongQuestion: true, ThenOK: true})
	}, func(a, b *dnstest.Server) {
		a.SetFaults(dnstest.Faults{})
		b.SetFaults(dnstest.Faults{})
	})
}
