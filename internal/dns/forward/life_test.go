package forward

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/exchange"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/test/dnstest"
)

func serverOf(f *Forward, s nameserver.Server) *server { return f.table.Load().servers[s] }

// TestNoGoroutine: a waiting question needs no goroutine, unless it has a stale answer to serve.
func TestNoGoroutine(t *testing.T) {
	servers, addresses := startServers(t, 2)
	for _, s := range servers {
		s.SetFaults(dnstest.Faults{Drop: true})
	}
	s := newLaneServer(t, func(c *Config) { c.Silence, c.Deadline = time.Hour, time.Hour }, addresses...)
	s.noStale.Store(true)
	const questions = 1000
	var clients []*dnstest.Loading
	before := runtime.NumGoroutine()
	loading, err := (dnstest.Load{
		Server: s.addr, Rate: 10_000, Count: questions, Asks: []dnstest.Ask{{Name: "n%d.example.", Type: dns.TypeA}},
	}).Start()
	if err != nil {
		t.Fatal(err)
	}
	clients = append(clients, loading)
	await(t, "all are asked", func() bool { return int(s.f.flights.n.Load()) == questions })
	await(t, "the first are asked again", func() bool { return stateOf(s.f, addresses[0]).Retries > questions/2 })
	// Goroutines of the load generator, checks, and 64 last resorts. A busy machine briefly has
	// more; one goroutine per question would stay.
	await(t, "few goroutines for the questions", func() bool { return runtime.NumGoroutine()-before <= questions/4 })
	s.f.Close()
	for _, c := range clients {
		c.Stop()
	}
	if n := int(s.f.flights.n.Load()); n != 0 {
		t.Errorf("%d questions still in flight", n)
	}
}

// TestLateAnswerIsHeard: an answer that arrives after its question failed marks the server as up
// and is cached.
func TestLateAnswerIsHeard(t *testing.T) {
	t.Parallel()
	servers, addresses := startServers(t, 1)
	s := newLaneServer(t, func(c *Config) { c.Silence = 300 * time.Millisecond }, addresses...)
	s.noStale.Store(true)
	servers[0].Vanish()
	await(t, "the server is down", func() bool {
		s.exchange(t, "www.example.", dns.TypeA)
		return stateOf(s.f, addresses[0]).State == exchange.Down
	})
	servers[0].SetFaults(dnstest.Faults{Delay: time.Second}) // longer than the wait for a server that is down
	if got := s.exchange(t, "late.example.", dns.TypeA); got != "SERVFAIL" {
		t.Errorf("got %s", got)
	}
	await(t, "the late answer", func() bool { return stateOf(s.f, addresses[0]).State == exchange.Up && s.late.Load() > 0 })
}

// TestSlowWithoutTCP: a server that is always slow is not dead, even if it refuses TCP: the refusal
// shows that the host is alive.
func TestSlowWithoutTCP(t *testing.T) {
	t.Parallel()
	servers, addresses := startServers(t, 1)
	servers[0].SetFaults(dnstest.Faults{Delay: 1200 * time.Millisecond})
	servers[0].RefuseTCP()
	f := newForward(t, func(c *Config) { c.Silence, c.Deadline = time.Second, 20*time.Second }, addresses...)
	mustAnswer(t, f)
}

// TestManyFailuresAtOnce: thousands of questions that cannot be sent all fail. The watcher notified
// itself of each through an eventfd(2), which was full after 255, and then waited for itself.
func TestManyFailuresAtOnce(t *testing.T) {
	var addresses []nameserver.Server
	for port := range 3 {
		addresses = append(addresses, nameserver.Server{Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{255, 255, 255, 255}), uint16(53+port))})
	}
	f := newForward(t, nil, addresses...)
	var clients sync.WaitGroup
	for i := range 3000 {
		clients.Go(func() {
			if _, _, err := askFor(t, f, fmt.Sprintf("n%d.example.", i), dns.TypeA); !errors.Is(err, ErrNoResponse) {
				t.Error(err)
			}
		})
	}
	clients.Wait()
}

// TestCloseWhileTLSIsUsed: when a working connection ends, its questions are sent again, even if
// Close ended it.
func TestCloseWhileTLSIsUsed(t *testing.T) {
	s := dnstest.NewTLSServer(t, world)
	f := newForward(t, trusting(s), overTLS(s))
	mustAnswer(t, f)
	s.SetFaults(dnstest.Faults{Drop: true})
	var clients sync.WaitGroup
	const questions = 500
	for i := range questions {
		clients.Go(func() {
			if _, _, err := askFor(t, f, fmt.Sprintf("n%d.example.", i), dns.TypeA); err == nil {
				t.Error("got an answer although the server drops queries")
			}
		})
	}
	await(t, "all wait", func() bool { return s.Queries() > questions })
	f.Close()
	clients.Wait()
}

// invalidResponses returns three invalid responses to a query.
func invalidResponses(query []byte) (responses [][]byte) {
	for range maxStrays {
		m := answerTo(query, forgedAddr)
		binary.BigEndian.PutUint16(m, 1+uint16(m[0])<<8|uint16(m[1]))
		m[0] ^= 0xff
		responses = append(responses, m)
	}
	return responses
}

// TestFalseChecks: invalid responses to a check do not prevent its end.
func TestFalseChecks(t *testing.T) {
	t.Parallel()
	p := newPeer(t, func(query []byte, overTCP bool) [][]byte {
		if nameIn(t, query) == "." && !overTCP {
			return invalidResponses(query)
		}
		return nil
	})
	f := newForward(t, func(c *Config) { c.Silence = 300 * time.Millisecond }, p.address)
	if _, _, err := askFor(t, f, "www.example.", dns.TypeA); !errors.Is(err, ErrNoResponse) {
		t.Error(err)
	}
	await(t, "the check ends", func() bool {
		s := serverOf(f, p.address)
		s.Heard(time.Now()) // a server that is down, or was silent to its check, is not checked
		return s.StartCheck(time.Now().Add(time.Hour))
	})
}

// makeLate makes s a server that is always late. Its next probe is due soon after next.
func makeLate(s *server, next time.Time) {
	for range 100 {
		s.KeepsUp(0, 0, 0)
	}
	for range 32 {
		s.Late(next)
	}
}

// TestFalseProbe: invalid responses to a probe do not affect the question that it accompanies.
func TestFalseProbe(t *testing.T) {
	var isSilent atomic.Bool
	late := newPeer(t, func(query []byte, _ bool) [][]byte { return invalidResponses(query) })
	first := newPeer(t, func(query []byte, _ bool) [][]byte {
		if isSilent.Load() {
			return nil
		}
		return [][]byte{answerTo(query, trueAddr)}
	})
	second := newPeer(t, func(query []byte, _ bool) [][]byte { return [][]byte{answerTo(query, trueAddr)} })
	f := newForward(t, func(c *Config) { c.Deadline, c.Silence = time.Hour, time.Hour }, late.address, first.address, second.address)
	makeLate(serverOf(f, late.address), time.Now().Add(time.Hour))
	mustAnswer(t, f)
	isSilent.Store(true)
	makeLate(serverOf(f, late.address), time.Time{})
	if from := mustAnswer(t, f); from != second.address {
		t.Errorf("got an answer from %v", from)
	}
}

// TestTwoAnswersAtOnce: the watcher finds the answers of a probe and of its question at the same
// time, and handling the first closes the other. No socket may be given to two questions.
func TestTwoAnswersAtOnce(t *testing.T) {
	t.Parallel()
	servers, addresses := startServers(t, 2)
	s := newLaneServer(t, func(c *Config) { c.Lanes = 1 }, addresses...)
	s.exchange(t, "first.example.", dns.TypeA)
	n := (*s.f.lanes.Load())[0]
	for i := range 20 {
		late := serverOf(s.f, addresses[0])
		await(t, "the probe before to end", func() bool {
			makeLate(late, time.Time{})
			_, _, mayProbe := late.Standing(time.Now())
			return mayProbe
		})
		before := servers[0].Queries()
		var client sync.WaitGroup
		client.Go(func() { s.exchange(t, fmt.Sprintf("n%d.example.", i), dns.TypeA) })
		await(t, "the probe", func() bool { return servers[0].Queries() > before })
		n.mu.Lock() // stops the watcher
		time.Sleep(s.f.config.TryTimeout + 20*time.Millisecond)
		n.mu.Unlock()
		client.Wait()
	}
	await(t, "nothing is open", func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return len(n.free)+len(n.idle[0])+len(n.idle[1]) == len(n.slots)
	})
	n.mu.Lock()
	defer n.mu.Unlock()
	seen := map[*try]bool{}
	for _, t2 := range slices.Concat(n.idle[0], n.idle[1]) {
		if seen[t2] {
			t.Errorf("the socket in slot %d is in the list twice", t2.socket.slot)
		}
		seen[t2] = true
	}
	if p := s.f.Stats().Panics; p > 0 {
		t.Errorf("%d panics", p)
	}
}

// TestAllAtOnce: with all servers queried at once, two answers to one question arrive together
// while the third server is silent.
func TestAllAtOnce(t *testing.T) {
	answers := func(query []byte, _ bool) [][]byte { return [][]byte{answerTo(query, trueAddr)} }
	one, other := newPeer(t, answers), newPeer(t, answers)
	silent := newPeer(t, func([]byte, bool) [][]byte { return nil })
	f := newForward(t, nil, one.address, other.address, silent.address)
	f.SetAll(true)
	var clients sync.WaitGroup
	for c := range 10 {
		clients.Go(func() {
			for i := range 300 {
				if _, _, err := askFor(t, f, fmt.Sprintf("n%d-%d.example.", c, i), dns.TypeA); err != nil {
					t.Error(err)
				}
			}
		})
	}
	clients.Wait()
	if p := f.Stats().Panics; p > 0 {
		t.Errorf("%d panics", p)
	}
}

// TestTimers: after any sequence of set and remove, the first timer is the earliest.
func TestTimers(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var h timers
	all := make([]*flight, 100)
	for i := range all {
		all[i] = new(flight)
	}
	for range 20_000 {
		fl := all[random.IntN(len(all))]
		if random.IntN(3) == 0 {
			h.remove(fl)
		} else {
			h.set(fl, time.Unix(int64(1+random.IntN(1000)), 0))
		}
		first := time.Time{}
		for _, fl := range all {
			if fl.place > 0 && h[fl.place-1] != fl {
				t.Fatal("a flight has a wrong place")
			}
			if fl.place > 0 && (first.IsZero() || fl.due.Before(first)) {
				first = fl.due
			}
		}
		if got := h.first(); got != first {
			t.Fatalf("first timer at %v, want %v", got, first)
		}
	}
}

// TestDefaultTimes: each wait is shorter than the next one, and a question ends before its client
// retries.
func TestDefaultTimes(t *testing.T) {
	const retry = 5 * time.Second // resolv.conf(5), timeout
	c := newForward(t, func(c *Config) { *c = Config{} }).config
	if c.Hedge >= c.TryTimeout || c.TryTimeout >= c.Silence || c.Silence >= c.Deadline || c.Deadline >= retry {
		t.Errorf("the waits are %v, %v, %v and %v, and the client's %v", c.Hedge, c.TryTimeout, c.Silence, c.Deadline, retry)
	}
}
