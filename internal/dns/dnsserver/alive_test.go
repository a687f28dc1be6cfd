package dnsserver

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// listeningPorts are sockets, named after what is wrong with them. They are closed when the test
// ends.
type listeningPorts struct {
	well, notRead, notAccepted, closes, free netip.AddrPort
}

func newListeningPorts(t *testing.T) listeningPorts {
	t.Helper()
	server := New(Config{Handler: HandlerFunc(answers)})
	if err := server.Listen([]netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Shutdown(context.Background()) })
	notRead, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { notRead.Close() })
	notAccepted, closes, free := listenTCP(t), listenTCP(t), listenTCP(t)
	free.Close()
	go func() {
		for {
			conn, err := closes.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
	}()
	return listeningPorts{
		well: server.Listeners()[0].Addr, notRead: netip.MustParseAddrPort(notRead.LocalAddr().String()),
		notAccepted: netip.MustParseAddrPort(notAccepted.Addr().String()), closes: netip.MustParseAddrPort(closes.Addr().String()),
		free: netip.MustParseAddrPort(free.Addr().String()),
	}
}

func listenTCP(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func answers(_ context.Context, q *Query) (*dns.Msg, error) {
	return new(dns.Msg).SetRcode(q.Msg, dns.RcodeRefused), nil
}

func TestAlive(t *testing.T) {
	s := newListeningPorts(t)
	fails := func(context.Context, *Query) (*dns.Msg, error) { return nil, errors.New("stuck") }
	udp := func(addr netip.AddrPort, taken uint64) Listener {
		return Listener{Addr: addr, Proto: UDP, Taken: taken}
	}
	tcp := func(addr netip.AddrPort) Listener {
		return Listener{Addr: addr, Proto: TCP}
	}
	tests := []struct {
		name    string
		first   Listener
		then    []Listener // listeners after the unanswered pings; nil: unchanged
		handler HandlerFunc
		want    string // substring of the error; "" means no error
	}{
		{name: "UDP", first: udp(s.well, 0)},
		{name: "TCP", first: tcp(s.well)},
		{name: "UDP that is never read", first: udp(s.notRead, 7), want: "udp " + s.notRead.String()},
		{name: "TCP that is never accepted", first: tcp(s.notAccepted), want: "tcp " + s.notAccepted.String()},
		{name: "TCP whose connections are closed at once", first: tcp(s.closes)},
		{name: "TCP port that is closed", first: tcp(s.free), want: "tcp " + s.free.String()},
		{name: "listener that is not bound", first: Listener{Addr: s.notRead, Proto: UDP, Err: "address already in use"}},
		{name: "listener closed during the check", first: udp(s.notRead, 0), then: []Listener{}},
		{name: "UDP at an address of another host", first: udp(netip.MustParseAddrPort("192.0.2.1:53"), 0)},
		{name: "TCP at an address of another host", first: tcp(netip.MustParseAddrPort("[2001:db8::1]:53"))},
		{name: "receives other queries", first: udp(s.notRead, 7), then: []Listener{udp(s.notRead, 8)}},
		{name: "receives nothing", first: udp(s.notRead, 7), then: []Listener{udp(s.notRead, 7)}, want: "udp"},
		{name: "receives other queries, answers none", first: udp(s.notRead, 7), then: []Listener{udp(s.notRead, 100)}, handler: fails, want: "stuck"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if test.handler == nil {
				test.handler = answers
			}
			asked := 0
			a := Alive{handler: test.handler, own: new(ownClients), listeners: func() []Listener {
				if asked++; asked > 1 && test.then != nil {
					return test.then
				}
				return []Listener{test.first}
			}}
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			err := a.Check(ctx)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// TestAliveAsksAllInTurn: one hanging listener among many is found within a few rounds.
func TestAliveAsksAllInTurn(t *testing.T) {
	var all []Listener
	for port := range uint16(3*aliveRound - 5) {
		all = append(all, Listener{Addr: netip.AddrPortFrom(netip.IPv6Loopback(), port), Proto: UDP})
	}
	a := Alive{listeners: func() []Listener { return all }}
	times := map[uint16]int{}
	for range 3 {
		round := a.round()
		if len(round) != aliveRound {
			t.Errorf("got %d listeners in a round", len(round))
		}
		for _, l := range round {
			times[l.Addr.Port()]++
		}
	}
	if len(times) != len(all) {
		t.Errorf("got %d of %d listeners checked in three rounds", len(times), len(all))
	}
	all = all[:2] // fewer listeners than the next index
	if first, second := a.round(), a.round(); len(first) != 1 || len(second) != 1 || first[0] == second[0] {
		t.Errorf("with two listeners, checked %v, then %v", first, second)
	}
	a.silent = all[:1]
	for range 2 {
		if round := a.round(); !slices.ContainsFunc(round, all[0].isSame) {
			t.Errorf("a silent listener is not checked again: %v", round)
		}
	}
	a.silent = nil
	all = nil
	if round := a.round(); len(round) != 0 {
		t.Errorf("without listeners: got %d checks, want 0", len(round))
	}
}

// TestPingsAreNobodysTraffic: pings are not counted. An idle node once showed two queries per
// second, which came from its own watchdog.
func TestPingsAreNobodysTraffic(t *testing.T) {
	var told, asked atomic.Int32
	handler := HandlerFunc(func(ctx context.Context, q *Query) (*dns.Msg, error) {
		asked.Add(1)
		return answers(ctx, q)
	})
	server := New(Config{Handler: handler, Access: &Access{Clients: NewNetworks(nil), Host: NewNetworks(nil), Rate: 1}, MaxTCPPerClient: 1})
	defer server.Shutdown(context.Background())
	watch := Watch(func(Seen) { told.Add(1) })
	server.SetWatch(watch, 0)
	addrs := []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0"), netip.MustParseAddrPort("[::1]:0")}
	if err := server.Listen(addrs); err != nil {
		t.Fatal(err)
	}
	alive := server.Alive(handler)
	const rounds = 6
	for range rounds {
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		if err := alive.Check(ctx); err != nil {
			t.Fatal(err)
		}
		cancel()
	}
	await := func(what string, isSo func() bool) {
		for !isSo() {
			if t.Context().Err() != nil {
				t.Fatal(what)
			}
			time.Sleep(time.Millisecond)
		}
	}
	if got := server.Stats(); got != (Stats{}) {
		t.Errorf("got stats %+v", got)
	}
	for _, one := range server.Traffic() {
		if one.Types != [len(TypeNames)]uint64{} || one.Rcodes != [len(RcodeNames)]uint64{} {
			t.Errorf("got traffic %+v", one)
		}
	}
	for _, l := range server.Listeners() {
		if l.Taken != 0 {
			t.Errorf("%s %s: got Taken %d, want 0", l.Proto, l.Addr, l.Taken)
		}
	}
	if told.Load() > 0 {
		t.Errorf("got %d calls of Watch, want 0", told.Load())
	}
	if int(asked.Load()) < rounds*len(addrs) {
		t.Errorf("got %d calls of the Handler in %d rounds", asked.Load(), rounds)
	}
	conn, err := net.Dial("udp", server.Listeners()[0].Addr.String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write(newPingMessage(UDP)); err != nil {
		t.Fatal(err)
	}
	await("a client that sends what a ping is counts", func() bool { return server.Stats().UDPQueries == 1 })
}
