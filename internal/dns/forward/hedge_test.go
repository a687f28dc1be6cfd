package forward

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// questions returns the number of queries that a server got, without checks.
func questions(s *dnstest.Server) (n int) {
	for _, seen := range s.Received() {
		if seen.Msg.Question[0].Name != "." {
			n++
		}
	}
	return n
}

// TestWait: the wait for a server follows its past response times, within limits.
func TestWait(t *testing.T) {
	f := New(Config{})
	defer f.Close()
	for _, row := range []struct {
		rtt, swing, least, most time.Duration
	}{
		{0, 0, 25 * time.Millisecond, 25 * time.Millisecond},
		{200 * time.Microsecond, 0, 10 * time.Millisecond, 10 * time.Millisecond},
		{20 * time.Millisecond, 0, 40 * time.Millisecond, 45 * time.Millisecond},
		{20 * time.Millisecond, 10 * time.Millisecond, 70 * time.Millisecond, 100 * time.Millisecond},
		{2 * time.Second, 0, 250 * time.Millisecond, 250 * time.Millisecond},
	} {
		s := testServers(t, 1)[0]
		for i := range 40 {
			if row.rtt > 0 {
				s.Succeeded(row.rtt+row.swing*time.Duration(i%2*2-1), dns.RcodeSuccess, 0, time.Now())
			}
		}
		if got := f.waitFor(s, false, 0); got < row.least || got > row.most {
			t.Errorf("%v±%v: got a wait of %v", row.rtt, row.swing, got)
		}
	}
}

// TestMessages: whatever two servers do, a client's question causes at most four upstream messages.
func TestMessages(t *testing.T) {
	t.Parallel()
	for name, faults := range map[string]dnstest.Faults{
		"silence":                 {Drop: true},
		"SERVFAIL":                {Rcode: dns.RcodeServerFailure},
		"FORMERR":                 {Rcode: dns.RcodeFormatError},
		"FORMERR to EDNS":         {FormErrOnEDNS: true},
		"silent to EDNS":          {DropOnEDNS: true},
		"truncated, TCP closed":   {Truncate: true, CloseTCP: true},
		"truncated, TCP silent":   {Truncate: true, Drop: false, ResetTCP: true},
		"wrong ID":                {WrongID: true, Copies: 200},
		"wrong ID, then SERVFAIL": {WrongID: true, Rcode: dns.RcodeServerFailure},
		"garbage":                 {Garbage: true},
	} {
		for _, lanes := range []int{0, 1} {
			t.Run(fmt.Sprintf("%s, lanes %d", name, lanes), func(t *testing.T) {
				t.Parallel()
				servers, addresses := startServers(t, 2)
				for _, s := range servers {
					s.SetFaults(faults)
				}
				wantAnswer := faults.FormErrOnEDNS || faults.DropOnEDNS
				s := newLaneServer(t, func(c *Config) {
					c.Lanes, c.TryTimeout, c.Deadline = lanes, 20*time.Millisecond, 500*time.Millisecond
					if wantAnswer {
						persistent(c)
					}
				}, addresses...)
				s.noStale.Store(true) // for a stale answer the Handler would ask the question again
				got := s.exchange(t, "www.example.", dns.TypeA)
				n := questions(servers[0]) + questions(servers[1])
				if n > maxTries || n == 0 {
					t.Errorf("%s: got %d upstream queries", got, n)
				}
				if isAnswered := got != "SERVFAIL" && got != "FORMERR"; isAnswered != wantAnswer {
					t.Errorf("the client got %s", got)
				}
			})
		}
	}
}

// TestOneSilentServer: the first of two servers is silent or broken. All questions are answered,
// that server gets few of them, and each question causes at most 1.05 upstream messages. Probes run
// by the clock, so a run of more than ten seconds may have a few more.
func TestOneSilentServer(t *testing.T) {
	t.Parallel()
	n := 10_000
	if testing.Short() || lab.RaceEnabled {
		n = 500 // too few for the share of repeated queries; make test runs all without -race
	}
	for name, faults := range map[string]dnstest.Faults{
		"silence":        {Drop: true},
		"two seconds":    {Delay: 2 * time.Second},
		"SERVFAIL":       {Rcode: dns.RcodeServerFailure},
		"wrong ID":       {WrongID: true},
		"TCP closed":     {Truncate: true, CloseTCP: true},
		"wrong question": {WrongQuestion: true},
	} {
		t.Run(name, func(t *testing.T) {
			servers, addresses := startServers(t, 2)
			servers[0].SetFaults(faults)
			s := newLaneServer(t, func(c *Config) {
				persistent(c)
				if faults.Rcode != 0 {
					c.TryTimeout = c.Deadline // after a refusal, the other server has this long
				}
			}, addresses...)
			begun := time.Now()
			for i := range n {
				if got := s.exchange(t, fmt.Sprintf("n%d.example.", i), dns.TypeA); got != "NXDOMAIN" {
					t.Fatalf("n%d: %s", i, got)
				}
			}
			sent := servers[0].Queries() + servers[1].Queries()
			t.Logf("%d messages, %d to the first server", sent, servers[0].Queries())
			if most := n*105/100 + 10*int(max(time.Since(begun)-10*time.Second, 0).Seconds()); sent > most && n > 500 {
				t.Errorf("%d queries caused %d upstream messages, want at most %d; %d went to the first server", n, sent, most, servers[0].Queries())
			}
		})
	}
}

// TestSilence: if no server answers anything, a question ends long before its deadline. While a
// server answers other questions, the wait continues.
func TestSilence(t *testing.T) {
	t.Parallel()
	servers, addresses := startServers(t, 2)
	f := newForward(t, func(c *Config) { c.Silence, c.Deadline = 200*time.Millisecond, time.Hour }, addresses...)
	for _, s := range servers {
		s.SetFaultsFor("slow.example.", dnstest.Faults{Delay: 600 * time.Millisecond})
	}
	if _, _, err := askFor(t, f, "slow.example.", dns.TypeA); err != nil { // the check was answered
		t.Errorf("slow name: got error %v", err)
	}
	for _, s := range servers {
		s.SetFaults(dnstest.Faults{Drop: true})
	}
	if _, _, err := askFor(t, f, "www.example.", dns.TypeA); !errors.Is(err, ErrNoResponse) {
		t.Errorf("silent servers: got error %v, want ErrNoResponse", err)
	}
}

// waiting returns the number of clients that wait for the flights of f.
func waiting(f *Forward) (all int) {
	for _, n := range *f.lanes.Load() {
		n.mu.Lock()
		for _, fl := range n.asked {
			for ; fl != nil; fl = fl.twin {
				all += len(fl.waiting) + len(fl.callers)
			}
		}
		n.mu.Unlock()
	}
	return all
}

// TestAskedOnce: an identical question from lane clients and Handler clients is sent once,
// whichever comes first.
func TestAskedOnce(t *testing.T) {
	for _, laneFirst := range []bool{false, true} {
		t.Run(fmt.Sprintf("lane first %v", laneFirst), func(t *testing.T) {
			g := newGate(t)
			s := newLaneServer(t, patient, g.address)
			var clients sync.WaitGroup
			defer clients.Wait()
			defer g.open()
			const many = 200
			byLane := func() {
				clients.Go(func() {
					if got := s.exchange(t, "www.example.", dns.TypeA); got != "NOERROR www.example.\t300\tIN\tA\t192.0.2.80" {
						t.Error(got)
					}
				})
			}
			byHandler := func() {
				clients.Go(func() {
					if m, _, err := askFor(t, s.f, "WWW.example.", dns.TypeA); err != nil || !isTrue(m) {
						t.Errorf("%v, %v", m, err)
					}
				})
			}
			if laneFirst {
				byLane()
			} else {
				byHandler()
			}
			await(t, "the question is asked", func() bool { return g.asked.Load() == 1 })
			for range many {
				byLane()
				byHandler()
			}
			await(t, "all wait", func() bool { return waiting(s.f) == 1+2*many })
			g.open()
			clients.Wait()
			if n := g.asked.Load(); n != 1 {
				t.Errorf("got %d upstream queries", n)
			}
			if n := s.f.flights.n.Load(); n != 0 {
				t.Errorf("got %d queries in flight after the end, want 0", n)
			}
		})
	}
}

// TestFailureIsNotShared: a question that failed is sent again for the next client.
func TestFailureIsNotShared(t *testing.T) {
	t.Parallel()
	servers, addresses := startServers(t, 1)
	s := newLaneServer(t, func(c *Config) { c.Silence = 300 * time.Millisecond }, addresses...)
	servers[0].SetFaults(dnstest.Faults{Drop: true})
	var clients sync.WaitGroup
	for range 20 {
		clients.Go(func() {
			if got := s.exchange(t, "www.example.", dns.TypeA); got != "SERVFAIL" {
				t.Error(got)
			}
		})
	}
	clients.Wait()
	servers[0].SetFaults(dnstest.Faults{})
	if got := s.exchange(t, "www.example.", dns.TypeA); got != "NOERROR www.example.\t300\tIN\tA\t192.0.2.80" {
		t.Errorf("after the fault: got %s", got)
	}
}

// TestOldestGivesWay: names without an answer do not block names with one.
func TestOldestGivesWay(t *testing.T) {
	servers, addresses := startServers(t, 1)
	servers[0].SetFaultsFor("silent1.example.", dnstest.Faults{Drop: true})
	servers[0].SetFaultsFor("silent2.example.", dnstest.Faults{Drop: true})
	f := newForward(t, func(c *Config) { c.Deadline, c.Silence, c.MaxInFlight = time.Hour, time.Hour, 2 }, addresses...)
	ctx, cancel := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	defer clients.Wait()
	defer cancel()
	first := make(chan error, 2)
	for i := range 2 {
		clients.Go(func() {
			_, err := f.ServeDNS(ctx, clientQuery(fmt.Sprintf("silent%d.example.", i+1), dns.TypeA))
			first <- err
		})
		await(t, "it is asked", func() bool { return int(f.flights.n.Load()) == i+1 })
	}
	await(t, "a name that is answered", func() bool {
		m, _, err := askFor(t, f, "www.example.", dns.TypeA)
		return err == nil && isTrue(m)
	})
	if err := <-first; !errors.Is(err, ErrShed) {
		t.Errorf("oldest query: got error %v, want ErrShed", err)
	}
	if n := f.flights.n.Load(); n != 1 {
		t.Errorf("got %d queries in flight, want 1", n)
	}
}

// TestRefusalWaits: a refusal from the second server is not final while the first one, which is
// usually fast, may still answer within its try timeout.
func TestRefusalWaits(t *testing.T) {
	t.Parallel()
	servers, addresses := startServers(t, 2)
	f := newForward(t, func(c *Config) { patient(c); c.Hedge = 20 * time.Millisecond }, addresses...)
	servers[1].SetFaults(dnstest.Faults{Rcode: dns.RcodeServerFailure})
	for range 20 {
		if from := mustAnswer(t, f); from != addresses[0] {
			t.Fatalf("got an answer from %v", from)
		}
	}
	servers[0].SetFaults(dnstest.Faults{Delay: 700 * time.Millisecond})
	// Ask another question: on a busy machine one of the earlier ones may have taken longer than
	// Hedge and sent a second query late.
	if m, from, err := askFor(t, f, "big.example.", dns.TypeTXT); err != nil || m.Rcode != dns.RcodeSuccess || from != addresses[0] {
		t.Errorf("answered by %v: %v, %v", from, m, err)
	}
	if n := servers[1].QueriesFor("big.example.", dns.TypeTXT); n != 1 {
		t.Errorf("the other server was asked %d times, want once", n)
	}
}
