package faultplan

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/test/dnstest"
)

// Facts of the rows about load.
const (
	silentNotFailed = "silent names not told so"
	sameAsked       = "queries for the same name"
	hitRate         = "hit rate, %"
	memoryMB        = "resident, MB"
	idleOpen        = "idle connections"
	silentZone      = "silent.example."

	p99Calm = "99th percentile before, ms"

	hostileZone = "hostile.example."
	harmless    = 64 // MB of resident memory that the program may use during hostile answers
)

// quick is a 99th percentile that is always acceptable, however small it was before the attack. A
// busy machine alone turns 1 ms into 40 ms. Hostile answers without a limit took more than a
// second.
const quick = patience / 4

// costlyKinds are hostile answers, by their names in dnstest.Costly.
var costlyKinds = []string{
	"HIP with pointers", "many of A", "zeros in TXT", "bitmaps of NSEC", "parameters of SVCB", "options", "names of their own in answer",
	"pointer chains in authority", "pointers to pointers in additional", "escapes in answer", "aliases in answer", "DNAMEs of long aliases in authority",
}

// load are the rows with many questions or slow answers.
func load() []Row {
	return []Row{
		{
			Name: "50 qps of names whose upstream never answers beside normal names", Promise: "normal names 100 %",
			zone: silentZone, play: silentOwn, want: wantSilentFailed,
		},
		{
			Name: "50 qps of names that A and B never answer beside normal names", Promise: "normal names 100 %",
			play: silentSame, want: wantSilentFailed,
		},
		{
			Name: "100 qps of one client's names with hostile answers of 64 KiB beside normal names", Timed: true,
			Promise: "normal names ≥ 99.9 %, resident ≤ 64 MB, 99th percentile ≤ 2× that before, or ≤ 250 ms",
			zone:    hostileZone, play: hostile, want: wantUnharmed,
		},
		{Name: "200 clients ask the same name at once", Promise: "1 upstream query, repeated only if no answer comes", servers: 1, play: same, want: wantOneQuery},
		{Name: "an 800 ms upstream, 200 clients, cold", Promise: "200 of 200", servers: 1, play: slow},
		{
			Name: "hot names while 300,000 unique names pass", Promise: "≥ 99 % hits", servers: 1, cacheSize: 10_000, play: unique, want: wantHits,
		},
		{Name: "SIGTERM with 100 queries in flight", Promise: "100 of 100", servers: 1, play: terminated},
		{Name: "10,000 idle TCP connections", Promise: "10 of 10 new clients, UDP untouched", servers: 1, play: idle},
		{Name: "the upstream list changes while 5,000 queries are in flight", Promise: "none lost", Told: true, play: relisted, want: wantRelisted},
	}
}

// silentOwn simulates a zone with its own, silent nameserver.
func silentOwn(s *stage) error {
	s.up[2].SetFaults(dnstest.Faults{Drop: true})
	return s.beside()
}

// silentSame simulates A and B that are silent about some names but not others.
func silentSame(s *stage) error {
	for n := range int(s.size.Length.Seconds()+1) * (rate + 50) {
		name := fmt.Sprintf("n%d.%s", n, silentZone)
		s.up[0].SetFaultsFor(name, dnstest.Faults{Drop: true})
		s.up[1].SetFaultsFor(name, dnstest.Faults{Drop: true})
	}
	return s.beside()
}

// beside queries four answered names per unanswered name.
func (s *stage) beside() error {
	asks := []dnstest.Ask{{Name: "n%d." + silentZone, Type: dns.TypeA, Want: address}}
	for range 4 {
		asks = append(asks, distinct("n")...)
	}
	return s.besideUnanswered(asks, func(name string) bool { return strings.HasSuffix(name, silentZone) })
}

// besideUnanswered queries a mix of names with and without an answer.
func (s *stage) besideUnanswered(asks []dnstest.Ask, isUnanswered func(name string) bool) error {
	silent := new(tally)
	each := func(a dnstest.Answer) {
		if isUnanswered(a.Name) {
			silent.take(a)
		} else {
			s.main.take(a)
		}
	}
	err := s.ask(dnstest.Load{Asks: asks, Rate: rate + 50, Each: each}, s.main, func() { s.pass(1) })
	o := silent.outcome()
	s.note(silentNotFailed, float64(o.Asked-o.Failed))
	return err
}

func wantSilentFailed(o Outcome) string {
	if o.Fact(silentNotFailed) > 0 {
		return "clients of silent names did not get an error"
	}
	return allRight(o)
}

// hostile simulates a client that queries names whose nameserver answers over TCP with responses
// that are far more expensive to parse than their size suggests (CVE-2026-82399 is CoreDNS's case
// of it). Like all clients of the rows, it is on loopback. node-dns treats it as its own host, to
// which the limit per client does not apply. So this row is about the limits for all clients;
// dnsserver's TestCostly is about the limit per client.
func hostile(s *stage) error {
	s.up[2].SetFaults(dnstest.Faults{Truncate: true, Raw: dnstest.CostlyInTurn(hostileName(0), dns.TypeHIP, costlyKinds...)})
	calm := new(tally)
	if err := s.ask(dnstest.Load{Asks: distinct("calm")}, calm, func() { s.pass(1) }); err != nil {
		return err
	}
	s.note(p99Calm, calm.outcome().P99)
	conn, err := net.DialUDP("udp", net.UDPAddrFromAddrPort(netip.MustParseAddrPort("127.0.9.9:0")), net.UDPAddrFromAddrPort(s.program.At))
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, stop := context.WithCancel(context.Background())
	attacked := make(chan int)
	go func() { attacked <- attack(ctx, conn) }()
	before, cpu := s.queries(), s.program.CPU()
	var resident float64
	err = s.ask(dnstest.Load{Asks: distinct("n")}, s.main, func() {
		for range 10 {
			s.pass(0.1)
			resident = max(resident, s.program.Memory())
		}
	})
	stop()
	s.note("hostile queries", float64(<-attacked))
	s.note("CPU, s", (s.program.CPU() - cpu).Seconds())
	s.count(s.queries() - before - s.up[2].Queries())
	s.note(memoryMB, resident)
	return err
}

// attack queries 100 names per second until ctx ends, without reading answers. It returns the
// number of queries.
func attack(ctx context.Context, conn net.Conn) (n int) {
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return n
		case <-ticker.C:
			query, err := new(dns.Msg).SetQuestion(hostileName(n), dns.TypeHIP).Pack()
			if err != nil {
				panic(err) // the name is ours
			}
			if _, err := conn.Write(query); err == nil {
				n++
			}
		}
	}
}

// hostileName returns one of a million names of the same length. They are long, so that pointers to
// them are more expensive.
func hostileName(n int) string {
	return fmt.Sprintf("n%06d.%s%s", n, strings.Repeat(strings.Repeat("a", 49)+".", 3), hostileZone)
}

func wantUnharmed(o Outcome) string {
	switch {
	case o.Fact(memoryMB) > harmless:
		return fmt.Sprintf("%.0f MB were resident", o.Fact(memoryMB))
	case o.Asked == 0 || float64(o.Right) < 0.999*float64(o.Asked):
		return fmt.Sprintf("%d of %d answers were right", o.Right, o.Asked)
	case o.P99 > max(2*o.Fact(p99Calm), milliseconds(quick)):
		return fmt.Sprintf("the 99th percentile was %.1f ms, and %.1f ms before", o.P99, o.Fact(p99Calm))
	}
	return ""
}

// same simulates many clients that want the same slow name.
func same(s *stage) error {
	const clients = 200
	s.up[0].SetFaults(dnstest.Faults{Delay: 20 * time.Millisecond})
	err := s.ask(s.once(clients, known("same", 1), crowd(clients)), s.main, func() {})
	s.note(sameAsked, float64(s.up[0].QueriesFor("same0.example.", dns.TypeA)))
	return err
}

func wantOneQuery(o Outcome) string {
	if n := o.Fact(sameAsked); n < 1 || n > maxUpstream {
		return fmt.Sprintf("the upstream nameserver got %g queries", n)
	}
	return allRight(o)
}

// slow simulates new names with slow answers (unbound's fix for DNSBomb, discard-timeout, drops
// such clients).
func slow(s *stage) error {
	const clients = 200
	s.up[0].SetFaults(dnstest.Faults{Delay: 800 * time.Millisecond})
	return s.ask(s.once(clients, distinct("slow"), crowd(clients)), s.main, func() {})
}

// unique simulates many names that are queried once, more than fit the cache between two questions
// for the same popular name.
func unique(s *stage) error {
	const each = 30
	hot, passing := hotNames*10/s.size.Part, 300_000/s.size.Part
	asks := known("hot", hot)
	for range 3 { // shows that they are popular
		if err := s.ask(dnstest.Load{Rate: fast, Count: hot, Window: window, Asks: asks}, new(tally), func() {}); err != nil {
			return err
		}
	}
	before := s.hotQueries(asks)
	var mixed []dnstest.Ask
	for _, ask := range asks {
		mixed = append(mixed, ask)
		for range each {
			mixed = append(mixed, distinct("pass")...)
		}
	}
	passed := new(tally)
	take := func(a dnstest.Answer) {
		if strings.HasPrefix(a.Name, "hot") {
			s.main.take(a)
		} else {
			passed.take(a)
		}
	}
	err := s.ask(dnstest.Load{Rate: fast, Count: passing / each * (each + 1), Window: window, Asks: mixed, Each: take}, s.main, func() {})
	asked, missed := passing/each, s.hotQueries(asks)-before
	s.count(missed)
	s.note(hitRate, 100*float64(asked-missed)/float64(asked))
	s.note(memoryMB, s.program.Memory())
	return err
}

// hotQueries returns the number of queries for asks to the upstream nameserver.
func (s *stage) hotQueries(asks []dnstest.Ask) (n int) {
	for _, ask := range asks {
		n += s.up[0].QueriesFor(ask.Name, ask.Type)
	}
	return n
}

// mostMB is the resident memory that the program may use.
const mostMB = 128

func wantHits(o Outcome) string {
	if o.Fact(hitRate) < 99 || o.Fact(memoryMB) > mostMB {
		return fmt.Sprintf("%.1f %% of the hot names were remembered, in %.0f MB", o.Fact(hitRate), o.Fact(memoryMB))
	}
	return allRight(o)
}

// terminated simulates a SIGTERM while clients wait.
func terminated(s *stage) error {
	const inFlight = 100
	s.up[0].SetFaults(dnstest.Faults{Delay: 500 * time.Millisecond})
	before := s.queries()
	return s.ask(s.once(inFlight, distinct("n"), crowd(4)), s.main, func() {
		s.await(func() bool { return s.queries()-before >= inFlight })
		s.program.Terminate()
	})
}

// await waits for a condition, for as long as any client waits.
func (s *stage) await(done func() bool) {
	for deadline := time.Now().Add(5 * time.Second); !done() && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
}

// idle simulates idle open connections.
func idle(s *stage) error {
	const wanted, ofOne = 10_000, 50
	n, err := roomFor(wanted, 2)
	if err != nil {
		return err
	}
	clients := crowd(n/ofOne + 1)
	var open []net.Conn
	defer func() {
		for _, conn := range open {
			conn.Close()
		}
	}()
	for i := range n {
		dialer := net.Dialer{Timeout: patience, LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(clients[i/ofOne], 0))}
		conn, err := dialer.Dial("tcp", s.program.At.String())
		if err != nil {
			break // a limit is not a fault: only the new clients count
		}
		open = append(open, conn)
	}
	s.note(idleOpen, float64(len(open)))
	overTCP := distinct("tcp")
	overTCP[0].TCP = true
	if err := s.ask(dnstest.Load{Rate: 20, Count: 10, Asks: overTCP}, s.main, func() {}); err != nil {
		return err
	}
	return s.ask(dnstest.Load{Asks: distinct("udp")}, s.main, func() { s.pass(0.5) })
}

// roomFor returns how many items, at most wanted, a process has descriptors for; each is the number
// of descriptors per item. It assumes that the process raises its limit to the maximum, as Go
// programs do.
func roomFor(wanted, each int) (int, error) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0, fmt.Errorf("reading the limit of descriptors: %w", err)
	}
	return min(wanted, int(min(limit.Cur, 1<<20))/each), nil
}

// relisted simulates B replacing A while thousands of A's answers are outstanding.
func relisted(s *stage) error {
	// A question holds up to four sockets in node-dns, which allots a third of its descriptors to
	// the questions of one route.
	const wanted, sockets = 5000, 12
	if s.program.SetUpstreams == nil {
		return errors.New("it cannot be given other upstream nameservers")
	}
	inFlight, err := roomFor(wanted, sockets)
	if err != nil {
		return err
	}
	a, b := s.up[0].Addr(), s.up[1].Addr()
	if err := s.program.SetUpstreams([]netip.AddrPort{a}); err != nil {
		return err
	}
	s.up[0].SetFaults(dnstest.Faults{Delay: 500 * time.Millisecond})
	before := s.up[0].Queries()
	var failed error
	l := s.once(inFlight, distinct("n"), crowd(100))
	err = s.ask(l, s.main, func() {
		s.await(func() bool { return s.up[0].Queries()-before >= inFlight })
		s.note("in flight", float64(s.up[0].Queries()-before))
		failed = s.program.SetUpstreams([]netip.AddrPort{b})
	})
	if err = errors.Join(err, failed); err != nil {
		return err
	}
	asked := s.up[1].Queries()
	later := new(tally)
	err = s.ask(dnstest.Load{Count: 50, Asks: distinct("later")}, later, func() {})
	s.note("answered by the new one", float64(later.outcome().Right))
	s.note("asked of it", float64(s.up[1].Queries()-asked))
	return err
}

func wantRelisted(o Outcome) string {
	if o.Fact("answered by the new one") < 50 || o.Fact("asked of it") < 50 {
		return "the new list does not hold"
	}
	return allRight(o)
}
