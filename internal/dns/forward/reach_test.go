package forward

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/exchange"
	"github.com/node-dns/node-dns/internal/test/dnstest"
)

func isKnown(unreachable <-chan struct{}) bool {
	select {
	case <-unreachable:
		return true
	default:
		return false
	}
}

// TestUnreachable: one unanswered question marks the route as unreachable for all its names, before
// any server counts as down. The first answer ends that. With the default Hedge, the server that
// answers was sometimes late, too.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name   string
		faults []dnstest.Faults // of each server
		want   bool
	}{
		{"both silent", []dnstest.Faults{{Drop: true}, {Drop: true}}, true},
		{"one silent", []dnstest.Faults{{Drop: true}, {}}, false},
		{"both refuse", []dnstest.Faults{{Rcode: dns.RcodeRefused}, {Rcode: dns.RcodeRefused}}, false},
		{"the only one silent", []dnstest.Faults{{Drop: true}}, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			servers, addresses := startServers(t, len(row.faults))
			s := newLaneServer(t, func(c *Config) {
				if row.want {
					c.Silence = 500 * time.Millisecond // no question is answered; each takes this long
				} else {
					c.Hedge = 200 * time.Millisecond // tolerates a busy machine
				}
			}, addresses...)
			other := s.f.Unreachable(dnsname.MustParse("other.example"))
			s.exchange(t, "www.example.", dns.TypeA)
			for i, faults := range row.faults {
				servers[i].SetFaults(faults)
			}
			s.exchange(t, "silent.example.", dns.TypeA)
			if got := isKnown(other); got != row.want {
				t.Fatalf("route known to be unreachable: got %v", got)
			}
			if !row.want {
				return
			}
			handled := s.handled.Load()
			s.exchange(t, "next.example.", dns.TypeA)
			if s.handled.Load() == handled {
				t.Error("a lane sent a query although no server answers")
			}
			servers[0].SetFaults(dnstest.Faults{})
			s.exchange(t, "back.example.", dns.TypeA)
			if again := s.f.Unreachable(dnsname.MustParse("other.example")); isKnown(again) || again == other {
				t.Error("the route is still unreachable after an answer")
			}
		})
	}
}

// TestUnreachableRelease: once no server answers, the queries that wait in a lane go to the
// Handler, and the question continues.
func TestUnreachableRelease(t *testing.T) {
	servers, addresses := startServers(t, 2)
	for _, s := range servers {
		s.SetFaults(dnstest.Faults{Drop: true})
	}
	var f *Forward
	server := dnsserver.New(dnsserver.Config{
		Miss: func(l *dnsserver.PendingQuery) bool { return f.Ask(l, 0, true) },
		Handler: dnsserver.HandlerFunc(func(ctx context.Context, q *dnsserver.Query) (*dns.Msg, error) {
			if !q.Tried.IsLate() || int(f.flights.n.Load()) == 0 {
				return nil, errors.New("the query skipped the lane, or its question has ended")
			}
			return new(dns.Msg).SetReply(q.Msg), nil
		}),
	})
	f = newForward(t, func(c *Config) {
		c.Lanes, c.Answered = 1, func(Reply) { t.Error("got an answer") }
		c.Silence, c.Deadline = time.Hour, time.Hour
	}, addresses...)
	if err := server.Listen([]netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}); err != nil {
		t.Fatal(err)
	}
	defer server.Shutdown(context.Background())
	if m := dnstest.Exchange(t, server.Listeners()[0].Addr, "www.example.", dns.TypeA); m.Rcode != dns.RcodeSuccess {
		t.Errorf("the client got %s", dns.RcodeToString[m.Rcode])
	}
	if n := f.Stats().Looped; n != 0 {
		t.Errorf("got %d looped queries, want 0", n)
	}
}

// TestBackMeanwhile: a question to a server that is down is retried, and answered if the server is
// back.
func TestBackMeanwhile(t *testing.T) {
	t.Parallel()
	servers, addresses := startServers(t, 1)
	f := newForward(t, func(c *Config) { c.Silence = time.Second }, addresses...)
	for range 5 { // on a busy machine a question may end first
		servers[0].SetFaults(dnstest.Faults{Drop: true})
		await(t, "the server is down for long", func() bool {
			_, _, err := askFor(t, f, "www.example.", dns.TypeA)
			return err != nil && stateOf(f, addresses[0]).State == exchange.Down && time.Since(stateOf(f, addresses[0]).Since) > time.Second
		})
		before := servers[0].Queries()
		answered := make(chan error, 1)
		go func() {
			_, _, err := askFor(t, f, "back.example.", dns.TypeA)
			answered <- err
		}()
		await(t, "it is asked", func() bool { return servers[0].Queries() > before })
		servers[0].SetFaults(dnstest.Faults{})
		if <-answered == nil {
			return
		}
	}
	t.Error("no question was answered by the server that is back")
}

// TestMayProbe: while a route is unreachable, one name every half second may be queried without a
// waiter. Otherwise all names may.
func TestMayProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := New(Config{Routes: []Route{{Servers: nil}, {Domain: dnsname.MustParse("corp.example")}}})
		defer f.Close()
		asked := func() (n int) {
			for i := range 1000 {
				if f.MayProbe(dnsname.MustParse(fmt.Sprintf("n%d.example", i))) {
					n++
				}
				time.Sleep(10 * time.Millisecond)
			}
			return n
		}
		if n := asked(); n != 1000 {
			t.Errorf("got %d of 1000 probes allowed while servers answer, want all", n)
		}
		state := &f.table.Load().match(dnsname.Root()).reach
		state.set(true)
		if n := asked(); n != 20 {
			t.Errorf("got %d probes allowed in 10 s, want 20", n)
		}
		if !f.MayProbe(dnsname.MustParse("www.corp.example")) {
			t.Error("probe denied for a route that is not unreachable")
		}
		state.set(false)
		if n := asked(); n != 1000 {
			t.Errorf("got %d of 1000 probes allowed after the outage", n)
		}
	})
}
