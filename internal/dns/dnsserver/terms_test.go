package dnsserver

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/test/dnstest"
)

// other stands for the other program: its sockets are like dnsmasq's. It answers UDP queries with
// REFUSED.
type other struct {
	conn  net.PacketConn
	taken atomic.Int64
}

func newOther(t *testing.T, addr string) (*other, error) {
	t.Helper()
	lc := net.ListenConfig{Control: reuseBeforeBind}
	conn, err := lc.ListenPacket(context.Background(), "udp4", addr)
	if err != nil {
		return nil, err
	}
	o := &other{conn: conn}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 512)
		for {
			n, client, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			o.taken.Add(1)
			_, _ = conn.WriteTo(errorReply(buf[:n], dns.RcodeRefused), client)
		}
	}()
	t.Cleanup(func() { conn.Close(); <-done })
	return o, nil
}

func onTerms(t *testing.T, s *Server, terms Terms, at netip.AddrPort) error {
	t.Helper()
	s.SetTerms(terms)
	return s.Listen([]netip.AddrPort{at})
}

// rcode sends one query on a new socket and returns the rcode of the response.
func rcode(t *testing.T, at netip.AddrPort) int {
	t.Helper()
	return dial(t, UDP, at).exchange(query("www.example.com.", dns.TypeA)).Rcode
}

// TestTaking: only with the terms Taking does the server take over an address, and afterwards no
// program can take it back.
func TestTaking(t *testing.T) {
	at := dnstest.FreePort(t)
	o, err := newOther(t, at.String())
	if err != nil {
		t.Fatal(err)
	}
	s := New(Config{Handler: fixed("www.example.com. 60 A 192.0.2.1")})
	defer s.Shutdown(context.Background())
	if err := onTerms(t, s, Alone, at); !errors.Is(err, unix.EADDRINUSE) || rcode(t, at) != dns.RcodeRefused {
		t.Fatalf("terms Alone: got error %v", err)
	}
	if err := onTerms(t, s, Taking, at); err != nil || rcode(t, at) != dns.RcodeSuccess {
		t.Fatalf("terms Taking: got error %v", err)
	}
	if o.taken.Load() != 1 {
		t.Errorf("the other program has %d queries, want only the first", o.taken.Load())
	}
	if err := onTerms(t, s, Alone, at); err != nil {
		t.Fatal(err)
	}
	if _, err := newOther(t, at.String()); !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("bind of a taken address: got error %v, want EADDRINUSE", err)
	}
}

// TestTakingPerAddress: a dnsmasq that keeps its own address, such as libvirt's, once lost its UDP
// queries while port 53 of another address changed hands, because the terms applied to the whole
// server. Likewise, only the given addresses are yielded.
func TestTakingPerAddress(t *testing.T) {
	mine, others := dnstest.FreePort(t), netip.AddrPortFrom(netip.MustParseAddr("127.0.0.2"), dnstest.FreePort(t).Port())
	for _, at := range []netip.AddrPort{mine, others} {
		if _, err := newOther(t, at.String()); err != nil {
			t.Fatal(err)
		}
	}
	s := New(Config{Handler: fixed("www.example.com. 60 A 192.0.2.1")})
	defer s.Shutdown(context.Background())
	s.SetTerms(Taking, mine)
	if err := s.Listen([]netip.AddrPort{mine, others}); !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("listen on both: got error %v, want EADDRINUSE", err)
	}
	if got := rcode(t, mine); got != dns.RcodeSuccess {
		t.Errorf("taken address: got %s", dns.RcodeToString[got])
	}
	if got := rcode(t, others); got != dns.RcodeRefused {
		t.Errorf("other address: got %s, want the other program's answer", dns.RcodeToString[got])
	}
	for _, l := range s.Listeners() {
		if l.Addr == others && l.Proto == UDP && !l.InUse {
			t.Errorf("%+v: want InUse", l)
		}
	}

	keeps := New(Config{Handler: fixed("www.example.com. 60 A 192.0.2.1")})
	defer keeps.Shutdown(context.Background())
	kept := dnstest.FreePort(t)
	keeps.SetTerms(Yielding, mine)
	if err := keeps.Listen([]netip.AddrPort{kept}); err != nil || len(keeps.Listeners()) != 2 {
		t.Errorf("kept address: got error %v, listeners %+v", err, keeps.Listeners())
	}
	if _, err := newOther(t, kept.String()); !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("bind of the kept address: got error %v, want EADDRINUSE", err)
	}
}

// TestYielding: another program can bind TCP, and takes over UDP by binding it. Until then the
// server answers UDP.
func TestYielding(t *testing.T) {
	at := dnstest.FreePort(t)
	s := New(Config{Handler: fixed("www.example.com. 60 A 192.0.2.1")})
	defer s.Shutdown(context.Background())
	if err := onTerms(t, s, Alone, at); err != nil {
		t.Fatal(err)
	}
	if err := onTerms(t, s, Yielding, at); err != nil || rcode(t, at) != dns.RcodeSuccess || len(s.Listeners()) != 1 {
		t.Fatalf("terms Yielding: got error %v, listeners %+v", err, s.Listeners())
	}
	listener, err := net.Listen("tcp", at.String())
	if err != nil {
		t.Fatalf("TCP was not released: %v", err)
	}
	listener.Close()
	if _, err := newOther(t, at.String()); err != nil || rcode(t, at) != dns.RcodeRefused {
		t.Fatalf("the program that bound UDP does not get its queries: %v", err)
	}
	if err := onTerms(t, s, Alone, at); err != nil || len(s.Listeners()) != 2 {
		t.Errorf("terms Alone again: got error %v, listeners %+v", err, s.Listeners())
	}
}

// TestGone: a program that is bound to the wildcard address gets queries to this address only when
// this socket is gone, and no query is lost.
func TestGone(t *testing.T) {
	at := dnstest.FreePort(t)
	var here atomic.Int64
	answers := fixed("www.example.com. 60 A 192.0.2.1")
	s := New(Config{Handler: HandlerFunc(func(ctx context.Context, q *Query) (*dns.Msg, error) {
		here.Add(1)
		return answers.ServeDNS(ctx, q)
	})})
	defer s.Shutdown(context.Background())
	if err := onTerms(t, s, Alone, at); err != nil {
		t.Fatal(err)
	}
	if err := onTerms(t, s, Yielding, at); err != nil {
		t.Fatal(err)
	}
	o, err := newOther(t, netip.AddrPortFrom(netip.IPv4Unspecified(), at.Port()).String())
	if err != nil {
		t.Fatal(err)
	}
	const queries = 2000
	sent := make(chan struct{})
	c := dial(t, UDP, at)
	wire := packed(t, query("www.example.com.", dns.TypeA))
	go func() {
		defer close(sent)
		for i := range queries {
			c.send(wire)
			// Keep fewer queries in flight than the socket buffer holds. Otherwise some are dropped
			// and the test waits forever.
			for tries := 0; i-int(here.Load()+o.taken.Load()) >= 100 && tries < 50; tries++ {
				time.Sleep(100 * time.Microsecond)
			}
		}
	}()
	for here.Load() < queries/10 {
		time.Sleep(time.Millisecond)
	}
	if err := onTerms(t, s, Gone, at); err != nil || len(s.Listeners()) != 0 {
		t.Fatalf("terms Gone: got error %v, listeners %+v", err, s.Listeners())
	}
	<-sent
	for deadline := time.Now().Add(10 * time.Second); here.Load()+o.taken.Load() < queries && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	if sum := here.Load() + o.taken.Load(); sum != queries || o.taken.Load() == 0 {
		t.Errorf("sent %d queries, got %d here and %d at the other program", queries, here.Load(), o.taken.Load())
	}
}

// TestTurnAway: after stopReceiving a socket receives nothing more, even while it is open.
func TestTurnAway(t *testing.T) {
	at := dnstest.FreePort(t)
	s := New(Config{Handler: fixed("www.example.com. 60 A 192.0.2.1")})
	defer s.Shutdown(context.Background())
	if err := errors.Join(onTerms(t, s, Alone, at), onTerms(t, s, Yielding, at)); err != nil {
		t.Fatal(err)
	}
	if _, err := newOther(t, netip.AddrPortFrom(netip.IPv4Unspecified(), at.Port()).String()); err != nil {
		t.Fatal(err)
	}
	if got := rcode(t, at); got != dns.RcodeSuccess {
		t.Fatalf("before stopReceiving: got %s", dns.RcodeToString[got])
	}
	for _, u := range udpOf(s.bindings) {
		u.stopReceiving()
	}
	if got := rcode(t, at); got != dns.RcodeRefused {
		t.Errorf("after stopReceiving: %s, want the other program's answer", dns.RcodeToString[got])
	}
}

// TestTermsFile: valid terms apply until they expire, and any other content is ignored.
func TestTermsFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "terms")
	for _, test := range []struct {
		name string
		make func() error
		want Terms
		at   []netip.AddrPort
	}{
		{"none", func() error { return nil }, Alone, nil},
		{"taking", func() error { return WriteTerms(path, Taking) }, Taking, nil},
		{"yielding", func() error { return WriteTerms(path, Yielding) }, Yielding, nil},
		{"expired", func() error { return os.Chtimes(path, time.Time{}, time.Now().Add(-TermsHold)) }, Alone, nil},
		{"yielding, rewritten", func() error { return WriteTerms(path, Yielding) }, Yielding, nil},
		{"modified in the future", func() error { return os.Chtimes(path, time.Time{}, time.Now().Add(time.Hour)) }, Alone, nil},
		{"unknown", func() error { return os.WriteFile(path, []byte("sharing\n"), 0o644) }, Alone, nil},
		{"at two addresses", func() error { return WriteTerms(path, Taking, loopback("127.0.0.1"), loopback("::1")) }, Taking, []netip.AddrPort{loopback("127.0.0.1"), loopback("::1")}},
		{"at an invalid address", func() error { return os.WriteFile(path, []byte("taking 127.0.0.1\n"), 0o644) }, Alone, nil},
		{"gone", func() error { return WriteTerms(path, Gone) }, Gone, nil},
		{"removed", func() error { return WriteTerms(path, Alone) }, Alone, nil},
	} {
		if err := test.make(); err != nil {
			t.Fatal(err)
		}
		got, at, left := ReadTerms(path)
		if got != test.want || left < 0 || left > TermsHold || (left > 0) != (got != Alone) || !slices.Equal(at, test.at) {
			t.Errorf("%s: got %q for %v, want %q", test.name, got, left, test.want)
		}
	}
}
