package dnsserver

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// listeningPorts are what a daemon may listen on, by what is wrong with it. They end with the test.
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
		then    []Listener // what is listened on when it was asked in vain; nil: the same
		handler HandlerFunc
		want    string // within the error; "": none
	}{
		{name: "UDP", first: udp(s.well, 0)},
		{name: "TCP", first: tcp(s.well)},
		{name: "UDP that nobody reads", first: udp(s.notRead, 7), want: "udp " + s.notRead.String()},
		{name: "TCP that nobody accepts from", first: tcp(s.notAccepted), want: "tcp " + s.notAccepted.String()},
		{name: "TCP whose connections are closed at once", first: tcp(s.closes)},
		{name: "a port that is closed, and should not be", first: tcp(s.free), want: "tcp " + s.free.String()},
		{name: "one that is not bound", first: Listener{Addr: s.notRead, Proto: UDP, Err: "address already in use"}},
		{name: "one that is closed meanwhile", first: udp(s.notRead, 0), then: []Listener{}},
		{name: "an address that this host does not have", first: udp(netip.MustParseAddrPort("192.0.2.1:53"), 0)},
		{name: "over TCP", first: tcp(netip.MustParseAddrPort("[2001:db8::1]:53"))},
		{name: "one where others are taken", first: udp(s.notRead, 7), then: []Listener{udp(s.notRead, 7+aliveTries+1)}},
		{name: "one where we alone were taken", first: udp(s.notRead, 7), then: []Listener{udp(s.notRead, 7+aliveTries)}, want: "udp"},
		{name: "others are taken, and nobody is answered", first: udp(s.notRead, 7), then: []Listener{udp(s.notRead, 100)}, handler: fails, want: "stuck"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if test.handler == nil {
				test.handler = answers
			}
			asked := 0
			a := Alive{handler: test.handler, listeners: func() []Listener {
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

// TestAliveAsksAllInTurn: the one of many that hangs is found within some rounds.
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
			t.Errorf("a round of %d", len(round))
		}
		for _, l := range round {
			times[l.Addr.Port()]++
		}
	}
	if len(times) != len(all) {
		t.Errorf("after three rounds %d of %d were asked", len(times), len(all))
	}
	all = all[:2] // fewer than whose turn it is
	if round := a.round(); len(round) != 2 {
		t.Errorf("of two there were %d asked", len(round))
	}
	all = nil
	if round := a.round(); len(round) != 0 {
		t.Errorf("of none there were %d asked", len(round))
	}
}
