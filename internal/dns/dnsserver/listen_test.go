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
	"golang.org/x/sys/unix"
)

func loopback(host string) netip.AddrPort { return netip.AddrPortFrom(netip.MustParseAddr(host), 0) }

func TestListenMoves(t *testing.T) {
	s := New(Config{Handler: fixed("www.example.com. 60 A 192.0.2.1")})
	defer s.Shutdown(t.Context())
	a, b, c := loopback("127.0.0.1"), loopback("127.0.0.2"), loopback("::1")
	if err := s.Listen([]netip.AddrPort{a, b, a, netip.MustParseAddrPort("[::ffff:127.0.0.2]:0")}); err != nil {
		t.Fatal(err)
	}
	before := s.Listeners()
	if len(before) != 4 {
		t.Fatalf("duplicates were bound: %+v", before)
	}
	for i := 0; i < 4; i += 2 {
		if before[i].Proto != UDP || before[i+1].Proto != TCP || before[i].Addr != before[i+1].Addr || before[i].Addr.Port() == 0 {
			t.Errorf("UDP and TCP of one address: %+v", before)
		}
	}
	stays, goes := dial(t, TCP, before[0].Addr), dial(t, TCP, before[2].Addr)
	stays.exchange(query("www.example.com.", dns.TypeA))
	goes.exchange(query("www.example.com.", dns.TypeA))

	if err := s.Listen([]netip.AddrPort{a, c}); err != nil {
		t.Fatal(err)
	}
	after := s.Listeners()
	if after[0] != before[0] || after[1] != before[1] {
		t.Errorf("the address that stays moved: %+v, then %+v", before, after)
	}
	if r := stays.exchange(query("www.example.com.", dns.TypeA)); len(r.Answer) != 1 {
		t.Error("a connection to the address that stays was not kept")
	}
	if _, err := goes.conn.Read(make([]byte, 1)); err == nil {
		t.Error("a connection to the removed address was kept")
	}
	if r := dial(t, UDP, after[2].Addr).exchange(query("www.example.com.", dns.TypeA)); len(r.Answer) != 1 {
		t.Error("the new address is not served")
	}
	if conn, err := net.Dial("tcp", before[2].Addr.String()); err == nil {
		conn.Close()
		t.Error("the old address is still bound")
	}
	if err := s.Listen([]netip.AddrPort{before[2].Addr}); err != nil {
		t.Errorf("listening on the old address again: %v", err)
	}
}

// TestListenKeepsWhatBinds: a socket that cannot be bound does not affect the others, and is
// retried.
func TestListenKeepsWhatBinds(t *testing.T) {
	// No other test uses the address, whose UDP port must be free.
	taken, err := net.Listen("tcp", "127.0.0.53:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	half := taken.Addr().(*net.TCPAddr).AddrPort()
	s := New(Config{Handler: fixed("www.example.com. 60 A 192.0.2.1")})
	defer s.Shutdown(t.Context())
	wanted := []netip.AddrPort{half, netip.MustParseAddrPort("192.0.2.1:53"), netip.MustParseAddrPort("0.0.0.0:0"), loopback("127.0.0.2")}
	err = s.Listen(wanted)
	for _, want := range []error{unix.EADDRINUSE, unix.EADDRNOTAVAIL, errUnspecified} {
		if !errors.Is(err, want) {
			t.Errorf("error does not contain %q: %v", want, err)
		}
	}
	want := "listening on tcp " + half.String() + ": bind: address already in use"
	if !strings.Contains(err.Error(), want) {
		t.Errorf("error does not contain %q: %v", want, err)
	}
	listeners := s.Listeners()
	for i, works := range []bool{true, false, false, false, false, false, true, true} {
		if (listeners[i].Err == "") != works {
			t.Errorf("listener %d: %+v", i, listeners[i])
		}
	}
	udp := dial(t, UDP, half)
	udp.exchange(query("www.example.com.", dns.TypeA))

	taken.Close()
	if err := s.Listen(wanted[:1]); err != nil {
		t.Fatalf("retry: %v", err)
	}
	udp.exchange(query("www.example.com.", dns.TypeA))
	dial(t, TCP, half).exchange(query("www.example.com.", dns.TypeA))
}

// TestDrain: received queries are answered before the socket closes, when the address is removed
// and when the server stops.
func TestDrain(t *testing.T) {
	ways := map[string]func(*Server) error{
		"Shutdown": func(s *Server) error { return s.Shutdown(context.Background()) },
		"Listen":   func(s *Server) error { return s.Listen(nil) },
	}
	for name, stop := range ways {
		for _, proto := range []Proto{UDP, TCP} {
			t.Run(name+" "+string(proto), func(t *testing.T) {
				entered, release := make(chan struct{}), make(chan struct{})
				s, addr := start(t, Config{Handler: HandlerFunc(func(context.Context, *Query) (*dns.Msg, error) {
					close(entered)
					<-release
					return answerOf("www.example.com. 60 A 192.0.2.1"), nil
				})})
				c := dial(t, proto, addr)
				c.send(packed(t, query("www.example.com.", dns.TypeA)))
				<-entered
				done := make(chan error)
				go func() { done <- stop(s) }()
				select {
				case <-done:
					t.Error("the server did not wait")
				case <-time.After(20 * time.Millisecond):
				}
				close(release)
				if r := c.receive(); len(r.Answer) != 1 {
					t.Errorf("got %v", r)
				}
				if err := <-done; err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestShutdownDeadline: when the time to drain is up, the Handlers' contexts end.
func TestShutdownDeadline(t *testing.T) {
	entered, left := make(chan struct{}, 2), make(chan struct{}, 2)
	s, addr := start(t, Config{Timeout: time.Hour, Handler: HandlerFunc(func(ctx context.Context, _ *Query) (*dns.Msg, error) {
		entered <- struct{}{}
		<-ctx.Done()
		left <- struct{}{}
		return nil, ctx.Err()
	})})
	for _, proto := range []Proto{UDP, TCP} {
		c := dial(t, proto, addr)
		c.send(packed(t, query("www.example.com.", dns.TypeA)))
		<-entered
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := s.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want context.DeadlineExceeded", err)
	}
	<-left
	<-left
	if err := s.Listen([]netip.AddrPort{anyPort}); !errors.Is(err, ErrStopped) {
		t.Errorf("Listen after Shutdown: %v", err)
	}
	if err := s.Shutdown(context.Background()); err != nil {
		t.Errorf("second Shutdown: %v", err)
	}
}

// TestShutdownAnswersWhatIsQueued: on a busy node, queries wait in the socket when the server
// stops. They were lost, also those of pods whose interception had already ended.
func TestShutdownAnswersWhatIsQueued(t *testing.T) {
	const queued = 100
	s := New(Config{UDPSockets: 2, Handler: HandlerFunc(func(context.Context, *Query) (*dns.Msg, error) {
		return answerOf("www.example. 60 A 192.0.2.1"), nil
	})})
	if err := s.Listen([]netip.AddrPort{anyPort}); err != nil {
		t.Fatal(err)
	}
	c := dial(t, UDP, s.Listeners()[0].Addr)
	if err := udpOf(s.bindings).stop(t.Context()); err != nil { // as if the receivers had no CPU time
		t.Fatal(err)
	}
	for range queued {
		c.send(packed(t, query("www.example.", dns.TypeA)))
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range queued {
		if r := c.receive(); address(r) != "192.0.2.1" {
			t.Fatalf("got answer %v", r)
		}
	}
}
