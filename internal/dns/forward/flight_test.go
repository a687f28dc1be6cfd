package forward

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/exchange"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/test/dnstest"
)

// A gate is a nameserver that answers nothing until it is opened, so that questions stay in flight
// as long as a test needs.
type gate struct {
	address nameserver.Server
	asked   atomic.Int64
	open    func()
}

func newGate(t *testing.T) *gate {
	t.Helper()
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	opened := make(chan struct{})
	g := &gate{
		address: nameserver.Server{Addr: conn.LocalAddr().(*net.UDPAddr).AddrPort()},
		open:    sync.OnceFunc(func() { close(opened) }),
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			buffer := make([]byte, 2048)
			n, client, err := conn.ReadFromUDPAddrPort(buffer)
			if err != nil {
				return
			}
			g.asked.Add(1)
			running.Go(func() {
				<-opened
				m := new(dns.Msg)
				if m.Unpack(buffer[:n]) != nil {
					return
				}
				m.Response = true
				m.Extra = nil
				m.Answer = []dns.RR{&dns.A{
					Hdr: dns.RR_Header{Name: m.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 300},
					A:   net.IPv4(192, 0, 2, 80),
				}}
				if wire, err := m.Pack(); err == nil {
					_, _ = conn.WriteToUDPAddrPort(wire, client)
				}
			})
		}
	})
	t.Cleanup(func() {
		g.open()
		conn.Close()
		running.Wait()
	})
	return g
}

// TestIdenticalQuestionsAreAskedOnce: 200 clients with the same question at once cause one upstream
// query (CoreDNS 1.15: 200, dnsdist: 200). Each gets its own response with its own question.
func TestIdenticalQuestionsAreAskedOnce(t *testing.T) {
	const many = 200
	g := newGate(t)
	f := newForward(t, patient, g.address)
	var clients sync.WaitGroup
	for i := range many {
		clients.Go(func() {
			name := "www.example."
			if i%2 == 1 {
				name = "wWw.eXample."
			}
			m, from, err := askFor(t, f, name, dns.TypeA)
			if err != nil || !isTrue(m) || from != g.address {
				t.Errorf("%v from %v, %v", m, from, err)
				return
			}
			m.Answer[0].(*dns.A).A[0] = 6 // must not be visible to the others
		})
	}
	await(t, "all wait", func() bool { return f.Stats().Joined == many-1 })
	g.open()
	clients.Wait()
	if n := g.asked.Load(); n != 1 {
		t.Errorf("%d questions upstream", n)
	}
	if s := f.Stats(); s.InFlight != 0 {
		t.Errorf("got stats %+v", s)
	}
}

// TestDifferentQuestionsAreNotJoined: questions that differ in anything that affects the answer are
// not joined.
func TestDifferentQuestionsAreNotJoined(t *testing.T) {
	g := newGate(t)
	f := newForward(t, patient, g.address)
	var clients sync.WaitGroup
	variants := [][]func(*dns.Msg){{}, {withDO}, {withCD}, {withDO, withCD}, {withoutRD}}
	for _, v := range variants {
		clients.Go(func() {
			if _, _, err := askFor(t, f, "www.example.", dns.TypeA, v...); err != nil {
				t.Error(err)
			}
		})
	}
	clients.Go(func() {
		if _, _, err := askFor(t, f, "www.example.", dns.TypeAAAA); err != nil {
			t.Error(err)
		}
	})
	await(t, "all are asked", func() bool { return int(g.asked.Load()) == len(variants)+1 })
	g.open()
	clients.Wait()
	if n := f.Stats().Joined; n != 0 {
		t.Errorf("got %d joined queries, want 0", n)
	}
}

func TestShedAtTheBound(t *testing.T) {
	g := newGate(t)
	f := newForward(t, func(c *Config) { patient(c); c.MaxInFlight = 2 }, g.address)
	var clients sync.WaitGroup
	for i := range 2 {
		clients.Go(func() {
			if _, _, err := askFor(t, f, fmt.Sprintf("n%d.example.", i), dns.TypeA); err != nil {
				t.Error(err)
			}
		})
	}
	await(t, "two in flight", func() bool { return g.asked.Load() == 2 })
	if _, _, err := askFor(t, f, "n2.example.", dns.TypeA); !errors.Is(err, ErrShed) {
		t.Errorf("the third got %v", err)
	}
	clients.Go(func() {
		if _, _, err := askFor(t, f, "n1.example.", dns.TypeA); err != nil {
			t.Errorf("a client that joins a question got %v", err)
		}
	})
	await(t, "it joined", func() bool { return f.Stats().Joined == 1 })
	g.open()
	clients.Wait()
	if s := f.Stats(); s.Shed != 1 || s.InFlight != 0 {
		t.Errorf("got stats %+v", s)
	}
	if _, _, err := askFor(t, f, "n2.example.", dns.TypeA); err != nil {
		t.Errorf("after the load: %v", err)
	}
}

// TestMovingTheBound: the maximum may change while questions are in flight. dnsForwardMax was once
// read only at startup.
func TestMovingTheBound(t *testing.T) {
	g := newGate(t)
	f := newForward(t, func(c *Config) { patient(c); c.MaxInFlight = 1 }, g.address)
	var clients sync.WaitGroup
	ask := func(name string) {
		clients.Go(func() {
			if _, _, err := askFor(t, f, name, dns.TypeA); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
		await(t, name, func() bool { return f.Stats().InFlight == int(name[1]-'0') })
	}
	ask("n1.example.")
	f.SetMaxInFlight(2)
	ask("n2.example.")
	f.SetMaxInFlight(1)
	if _, _, err := askFor(t, f, "n3.example.", dns.TypeA); !errors.Is(err, ErrShed) {
		t.Errorf("above the lowered maximum: %v", err)
	}
	f.SetMaxInFlight(0) // the default
	ask("n3.example.")
	g.open()
	clients.Wait()
}

// TestNoRouteTakesAllTheRoom: questions to dead nameservers, each of which lasts until its
// deadline, used up the places of cluster names.
func TestNoRouteTakesAllTheRoom(t *testing.T) {
	g := newGate(t)
	cluster := dnstest.NewServer(t, "web.cluster.local. 30 IN A 192.0.2.80\n")
	f := newForward(t, func(c *Config) { patient(c); c.MaxInFlight = 4 })
	f.SetRoutes([]Route{
		{Domain: dnsname.MustParse("cluster.local"), Servers: []nameserver.Server{plain(cluster)}},
		{Servers: []nameserver.Server{g.address}},
	})
	var clients sync.WaitGroup
	for i := range 3 {
		clients.Go(func() { _, _, _ = askFor(t, f, fmt.Sprintf("n%d.example.", i), dns.TypeA) })
	}
	await(t, "three in flight", func() bool { return f.Stats().InFlight == 3 })
	if _, _, err := askFor(t, f, "n3.example.", dns.TypeA); !errors.Is(err, ErrShed) {
		t.Errorf("fourth query of a route: got error %v, want ErrShed", err)
	}
	if _, from, err := askFor(t, f, "web.cluster.local.", dns.TypeA); err != nil || from != plain(cluster) {
		t.Errorf("cluster name: got an answer from %v, error %v", from, err)
	}
	g.open()
	clients.Wait()
	for i := range 8 { // all places are free again
		if _, _, err := askFor(t, f, fmt.Sprintf("m%d.example.", i), dns.TypeA); err != nil {
			t.Errorf("after the load: %v", err)
		}
	}
}

// TestClientsThatLeave: a client that gives up does not affect the others. The question ends with
// the last client.
func TestClientsThatLeave(t *testing.T) {
	g := newGate(t)
	f := newForward(t, patient, g.address)
	var first, second sync.WaitGroup
	ctx1, leave1 := context.WithCancel(t.Context())
	ctx2, leave2 := context.WithCancel(t.Context())
	for _, c := range []struct {
		group *sync.WaitGroup
		ctx   context.Context
	}{{&first, ctx1}, {&second, ctx2}} {
		c.group.Go(func() {
			if _, err := f.ServeDNS(c.ctx, clientQuery("www.example.", dns.TypeA)); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
		})
	}
	await(t, "both wait", func() bool { return f.Stats().Joined == 1 })
	leave1()
	first.Wait()
	if n := f.Stats().InFlight; n != 1 {
		t.Errorf("got %d queries in flight while one client waits, want 1", n)
	}
	leave2()
	second.Wait()
	if n := f.Stats().InFlight; n != 0 {
		t.Errorf("got %d queries in flight after all clients left, want 0", n)
	}
	if s := stateOf(f, g.address); s.Failures != 0 || s.State != exchange.Unknown {
		t.Errorf("clients that left were counted against the server: %+v", s)
	}
}

// TestSetRoutesWhileInFlight: when the upstreams change, questions in flight finish with the old
// servers. Later ones, even for the same name, go to the new servers at once.
func TestSetRoutesWhileInFlight(t *testing.T) {
	const many = 500
	g := newGate(t)
	fresh := dnstest.NewServer(t, world)
	// Not patient: some packets of such a burst may be lost, and are sent again.
	f := newForward(t, func(c *Config) { c.TryTimeout, c.Deadline = time.Second, 30*time.Second }, g.address)
	var clients sync.WaitGroup
	for i := range many {
		clients.Go(func() {
			if _, from, err := askFor(t, f, fmt.Sprintf("n%d.example.", i), dns.TypeA); err != nil || from != g.address {
				t.Errorf("n%d from %v: %v", i, from, err)
			}
		})
	}
	clients.Go(func() {
		if from := mustAnswer(t, f); from != g.address {
			t.Errorf("query in flight: got an answer from %v", from)
		}
	})
	await(t, "all in flight", func() bool { return f.Stats().InFlight == many+1 })
	f.SetRoutes([]Route{{Servers: []nameserver.Server{plain(fresh)}}})
	if from := mustAnswer(t, f); from != plain(fresh) {
		t.Errorf("new query: got an answer from %v", from)
	}
	g.open()
	clients.Wait()
}

func TestCloseFailsWhatIsInFlight(t *testing.T) {
	g := newGate(t)
	f := newForward(t, patient, g.address)
	var client sync.WaitGroup
	client.Go(func() {
		if _, _, err := askFor(t, f, "www.example.", dns.TypeA); !errors.Is(err, ErrNoResponse) {
			t.Errorf("query in flight: got error %v", err)
		}
	})
	await(t, "in flight", func() bool { return g.asked.Load() == 1 })
	f.Close()
	client.Wait()
	f.Close()
	if _, _, err := askFor(t, f, "www.example.", dns.TypeA); !errors.Is(err, exchange.ErrClosed) {
		t.Errorf("query after Close: got error %v", err)
	}
}

func TestOneQuestionOnly(t *testing.T) {
	f := newForward(t, nil)
	q := clientQuery("www.example.", dns.TypeA)
	q.Msg.Question = nil
	if _, err := f.ServeDNS(t.Context(), q); err == nil {
		t.Error("answered a query without question")
	}
}

// TestClientsDeadline: a client whose own context ends first gets an error that names the servers.
func TestClientsDeadline(t *testing.T) {
	g := newGate(t)
	f := newForward(t, patient, g.address)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err := f.ServeDNS(ctx, clientQuery("www.example.", dns.TypeA))
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}
