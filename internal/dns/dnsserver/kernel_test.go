package dnsserver

import (
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/sys/rawsock"
)

// TestBusy: receivers that block in the kernel answer everything, let the garbage collector stop
// the world, and leave the kernel when they are idle or must stop.
func TestBusy(t *testing.T) {
	processors := processors(t)
	receivers := min(2, len(processors)) // each gets the queries of its CPUs
	before := runtime.GOMAXPROCS(0)
	runtime.GOMAXPROCS(before + receivers)
	t.Cleanup(func() { runtime.GOMAXPROCS(before) })
	s, addr := start(t, Config{
		UDPSockets: receivers, Threads: receivers, Handler: fixed("www.example.com. 60 A 192.0.2.1"),
	})
	ask := func(c *client) {
		for range 50 {
			if r := c.exchange(query("www.example.com.", dns.TypeA)); len(r.Answer) != 1 {
				t.Errorf("got %v", r)
			}
		}
	}
	var clients []*client
	for range receivers {
		clients = append(clients, dial(t, UDP, addr))
	}
	for len(s.threads) < receivers && !t.Failed() {
		for i, c := range clients {
			onProcessor(t, processors[i], func() { ask(c) })
		}
	}
	for range 20 {
		runtime.GC()
		ask(clients[0])
	}
	for len(s.threads) > 0 {
		time.Sleep(rawsock.Timeout)
	}
	ask(clients[len(clients)-1])
}

// TestBusyStops: a server whose receivers block in the kernel can be stopped.
func TestBusyStops(t *testing.T) {
	processors := runtime.GOMAXPROCS(0)
	runtime.GOMAXPROCS(processors + 1)
	t.Cleanup(func() { runtime.GOMAXPROCS(processors) })
	s := New(Config{Threads: 1, Handler: fixed("www.example.com. 60 A 192.0.2.1")})
	if err := s.Listen([]netip.AddrPort{anyPort}); err != nil {
		t.Fatal(err)
	}
	c := dial(t, UDP, s.Listeners()[0].Addr)
	for len(s.threads) == 0 && !t.Failed() {
		c.exchange(query("www.example.com.", dns.TypeA))
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if got := s.Stats(); got.Answered == 0 || got.Answered != got.UDPQueries {
		t.Errorf("got stats %+v", got)
	}
}
