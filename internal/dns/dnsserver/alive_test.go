package dnsserver

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// TestAlive: a queue hangs if it has work at every look and makes no progress.
func TestAlive(t *testing.T) {
	idle, unread := udpFD(t), udpFD(t)
	unread.send(t)
	fails := func(context.Context, *Query) (*dns.Msg, error) { return nil, errors.New("stuck") }
	const seen = 100 // taken in the first look
	tests := []struct {
		name    string
		at      unreadUDP
		inUse   bool
		grows   bool // taken, between the looks
		ends    bool // the listener is closed after the first look
		handler HandlerFunc
		want    string // substring of the error; "" means no error
	}{
		{name: "idle", at: idle},
		{name: "reads what waits", at: unread, grows: true},
		{name: "does not read what waits", at: unread, want: "listener udp 192.0.2.1:53 does not read its queries within"},
		{name: "does not read what waits, and is closed", at: unread, ends: true},
		{name: "handles queries", at: idle, inUse: true, grows: true},
		{name: "does not finish a query", at: idle, inUse: true, want: "listener udp 192.0.2.1:53 does not finish a query within"},
		{name: "the Handler fails", at: idle, handler: fails, want: "stuck"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if test.handler == nil {
				test.handler = answers
			}
			q := queue{of: new(int), name: "udp 192.0.2.1:53", fd: test.at.fd, inUse: test.inUse, taken: seen}
			looks := 0
			a := Alive{handler: test.handler, queues: func() []queue {
				looks++
				now := q
				switch {
				case looks > 1 && test.ends:
					return nil
				case test.grows:
					now.taken += uint64(looks)
				}
				return []queue{now, now} // two sockets of an address are reported once
			}}
			limit := 30 * time.Second
			if test.want != "" {
				limit = 100 * time.Millisecond
			}
			err := a.Check(t.Context(), limit)
			if (err == nil) != (test.want == "") || err != nil && strings.Count(err.Error(), test.want) != 1 {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// unreadUDP is a socket that no goroutine reads.
type unreadUDP struct {
	fd   int
	addr net.Addr
}

func udpFD(t *testing.T) unreadUDP {
	t.Helper()
	c, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	file, err := newUDPFile(c.(*net.UDPConn))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(file.close)
	return unreadUDP{file.fd, c.LocalAddr()}
}

func (u unreadUDP) send(t *testing.T) {
	t.Helper()
	c, err := net.Dial("udp4", u.addr.String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write([]byte("query")); err != nil {
		t.Fatal(err)
	}
}

func answers(_ context.Context, q *Query) (*dns.Msg, error) {
	return new(dns.Msg).SetRcode(q.Msg, dns.RcodeRefused), nil
}

// TestHungListener: the check finds a hung receiver or loop, even if another one of the address
// answers. An earlier check sent queries to the address, and so often reached the other one.
func TestHungListener(t *testing.T) {
	for _, row := range []struct {
		name    string
		proto   Proto
		sockets int
		more    bool // another query follows, which waits
		want    string
	}{
		{"one of two receivers", UDP, 2, false, "does not finish a query"},
		{"one of two loops", TCP, 2, false, "does not finish a query"},
		{"the only receiver", UDP, 1, true, "does not read its queries"},
		{"the only loop", TCP, 1, true, "does not read its queries"},
	} {
		t.Run(row.name, func(t *testing.T) {
			hangs, release := make(chan bool, 1), make(chan bool)
			s, addr := start(t, Config{UDPSockets: row.sockets, Handler: fixed("www.example.com. 60 A 192.0.2.1"), Wire: func(_ []byte, q *WireQuery) ([]byte, bool) {
				if strings.Contains(string(q.Msg), "hangs") {
					hangs <- true
					<-release
				}
				return nil, false
			}})
			alive := s.Alive(HandlerFunc(answers))
			mustBeAlive := func(when string) {
				t.Helper()
				if err := alive.Check(t.Context(), time.Minute); err != nil {
					t.Errorf("%s: %v", when, err)
				}
			}
			mustBeAlive("idle")
			c := dial(t, row.proto, addr)
			c.send(packed(t, query("hangs.example.com.", dns.TypeA)))
			<-hangs
			if row.more {
				more := dial(t, row.proto, addr)
				more.send(packed(t, query("www.example.com.", dns.TypeA)))
				defer more.receive()
			}
			err := alive.Check(t.Context(), 100*time.Millisecond)
			if want := "listener " + string(row.proto) + " " + addr.String() + " " + row.want; err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %s", err, want)
			}
			close(release)
			mustBeAlive("released")
			c.receive()
			mustBeAlive("answered")
		})
	}
}

// TestHungHandler: a Check does not return before the Handler does.
func TestHungHandler(t *testing.T) {
	asked, release, done := make(chan bool), make(chan bool), make(chan error, 1)
	alive := New(Config{}).Alive(HandlerFunc(func(ctx context.Context, q *Query) (*dns.Msg, error) {
		close(asked)
		<-release
		return answers(ctx, q)
	}))
	go func() { done <- alive.Check(t.Context(), time.Millisecond) }()
	<-asked
	select {
	case err := <-done:
		t.Errorf("returned %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	close(release)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestAliveIsNoTraffic: checks are not counted, and reach no receiver. An idle node once showed two
// queries per second, which came from its own watchdog.
func TestAliveIsNoTraffic(t *testing.T) {
	var told, asked, received atomic.Int32
	handler := HandlerFunc(func(ctx context.Context, q *Query) (*dns.Msg, error) {
		asked.Add(1)
		return answers(ctx, q)
	})
	server := New(Config{Handler: handler, MaxTCPPerClient: 1, Wire: func([]byte, *WireQuery) ([]byte, bool) {
		received.Add(1)
		return nil, false
	}})
	defer server.Shutdown(context.Background())
	server.SetWatch(func(Seen) { told.Add(1) }, 0)
	if err := server.Listen([]netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0"), netip.MustParseAddrPort("[::1]:0")}); err != nil {
		t.Fatal(err)
	}
	alive := server.Alive(handler)
	const rounds = 6
	for range rounds {
		if err := alive.Check(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
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
	if told.Load() > 0 || received.Load() > 0 || asked.Load() != rounds {
		t.Errorf("got %d calls of Watch, %d of Wire and %d of the Handler in %d rounds", told.Load(), received.Load(), asked.Load(), rounds)
	}
}
