package dnsserver

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	"go.uber.org/goleak"

	"github.com/node-dns/node-dns/internal/test/lab"
)

func TestMain(m *testing.M) {
	lab.Overlap(8)
	goleak.VerifyTestMain(m)
}

var anyPort = netip.MustParseAddrPort("127.0.0.1:0")

// start serves on 127.0.0.1 until the test ends.
//
// Its timeouts are long, so that a slow machine closes no connection and drops no query. On one
// that emulated another architecture, a client of TestSlowReadersGo was silent for the default of 2
// s, and the test hung.
func start(t *testing.T, cfg Config) (*Server, netip.AddrPort) {
	t.Helper()
	for _, timeout := range []*time.Duration{&cfg.FirstQuery, &cfg.Idle, &cfg.Write, &cfg.Timeout} {
		number(timeout, time.Hour)
	}
	s := New(cfg)
	if err := s.Listen([]netip.AddrPort{anyPort}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
	})
	return s, s.Listeners()[0].Addr
}

// fixed returns a Handler that answers every query with these records.
func fixed(records ...string) Handler {
	return HandlerFunc(func(context.Context, *Query) (*dns.Msg, error) {
		return answerOf(records...), nil
	})
}

func answerOf(records ...string) *dns.Msg {
	m := new(dns.Msg)
	for _, r := range records {
		rr, err := dns.NewRR(r)
		if err != nil {
			panic(err)
		}
		m.Answer = append(m.Answer, rr)
	}
	return m
}

// addresses returns n records that take 16 bytes each in a packed message.
func addresses(n int) []string {
	var records []string
	for i := range n {
		records = append(records, fmt.Sprintf("www.example.com. 60 A 192.0.%d.%d", i/250, i%250+1))
	}
	return records
}

func query(name string, qtype uint16, change ...func(*dns.Msg)) *dns.Msg {
	m := new(dns.Msg)
	m.SetQuestion(name, qtype)
	for _, c := range change {
		c(m)
	}
	return m
}

func edns(size uint16, options ...dns.EDNS0) func(*dns.Msg) {
	return func(m *dns.Msg) {
		m.SetEdns0(size, false)
		m.IsEdns0().Option = options
	}
}

func packed(t testing.TB, m *dns.Msg) []byte {
	t.Helper()
	wire, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return wire
}

// client is a client socket. Messages have no length prefix here.
type client struct {
	t     testing.TB
	conn  net.Conn
	proto Proto
}

func dial(t testing.TB, proto Proto, addr netip.AddrPort) *client {
	t.Helper()
	conn, err := net.Dial(string(proto), addr.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(time.Minute))
	return &client{t, conn, proto}
}

func (c *client) send(wire []byte) {
	c.t.Helper()
	if c.proto == TCP {
		wire = append(binary.BigEndian.AppendUint16(nil, uint16(len(wire))), wire...)
	}
	if _, err := c.conn.Write(wire); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) receiveWire() []byte {
	c.t.Helper()
	if c.proto == UDP {
		buf := make([]byte, 1<<16)
		n, err := c.conn.Read(buf)
		if err != nil {
			c.t.Fatal(err)
		}
		return buf[:n]
	}
	var size [2]byte
	if _, err := io.ReadFull(c.conn, size[:]); err != nil {
		c.t.Fatal(err)
	}
	buf := make([]byte, binary.BigEndian.Uint16(size[:]))
	if _, err := io.ReadFull(c.conn, buf); err != nil {
		c.t.Fatal(err)
	}
	return buf
}

func (c *client) receive() *dns.Msg {
	c.t.Helper()
	m := new(dns.Msg)
	if err := m.Unpack(c.receiveWire()); err != nil {
		c.t.Fatal(err)
	}
	return m
}

func (c *client) exchange(m *dns.Msg) *dns.Msg {
	c.t.Helper()
	c.send(packed(c.t, m))
	return c.receive()
}

func TestAnswer(t *testing.T) {
	type seen struct {
		name          string
		client, local netip.AddrPort
		proto         Proto
		deadline      time.Duration
	}
	for _, host := range []string{"127.0.0.1", "127.0.0.2", "::1"} {
		for _, proto := range []Proto{UDP, TCP} {
			t.Run(host+" "+string(proto), func(t *testing.T) {
				queries := make(chan seen, 1)
				s := New(Config{Handler: HandlerFunc(func(ctx context.Context, q *Query) (*dns.Msg, error) {
					end, _ := ctx.Deadline()
					queries <- seen{q.Name.String(), q.Client, q.Local, q.Proto, time.Until(end)}
					return answerOf("www.example.com. 60 A 192.0.2.1"), nil
				})})
				if err := s.Listen([]netip.AddrPort{netip.AddrPortFrom(netip.MustParseAddr(host), 0)}); err != nil {
					t.Fatal(err)
				}
				defer s.Shutdown(t.Context())
				addr := s.Listeners()[0].Addr
				c := dial(t, proto, addr) // a connected UDP socket receives only from the server's address
				m := c.exchange(query("WWW.example.com.", dns.TypeA, func(m *dns.Msg) { m.Id = 4711 }))
				if m.Id != 4711 || !m.Response || !m.RecursionAvailable || !m.RecursionDesired || m.Rcode != dns.RcodeSuccess {
					t.Errorf("got header %v", m.MsgHdr)
				}
				if m.Question[0].Name != "WWW.example.com." {
					t.Errorf("question: got %q, want the client's own case", m.Question[0].Name)
				}
				if len(m.Answer) != 1 || len(m.Extra) != 0 {
					t.Errorf("got %v", m)
				}
				got := <-queries
				if got.deadline < 4*time.Second || got.deadline > 5*time.Second {
					t.Errorf("the Handler's deadline is in %v, want 5 s", got.deadline)
				}
				got.deadline = 0
				me := c.conn.LocalAddr().(interface{ AddrPort() netip.AddrPort }).AddrPort()
				want := seen{"www.example.com.", me, addr, proto, 0}
				if got != want {
					t.Errorf("query: got %+v, want %+v", got, want)
				}
			})
		}
	}
}

func TestHandlerOutcomes(t *testing.T) {
	var log bytes.Buffer
	s, addr := start(t, Config{
		Log: slog.New(slog.NewTextHandler(&log, nil)),
		Handler: HandlerFunc(func(_ context.Context, q *Query) (*dns.Msg, error) {
			switch q.Name.Relative() {
			case "fails":
				return nil, errors.New("a secret of the server")
			case "explains":
				return nil, fmt.Errorf("asking upstream: %w", &ExtendedError{Code: dns.ExtendedErrorCodeNoReachableAuthority, Text: "10.0.0.2: refused"})
			case "panics":
				panic("out of cheese")
			case "nonsense":
				return &dns.Msg{Answer: []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: strings.Repeat("a", 70) + ".", Rrtype: dns.TypeA, Class: dns.ClassINET}}}}, nil
			case "nil":
				return &dns.Msg{Answer: []dns.RR{(*dns.A)(nil)}}, nil
			case "extended":
				return &dns.Msg{MsgHdr: dns.MsgHdr{Rcode: dns.RcodeBadCookie}}, nil
			}
			return nil, nil
		}),
	})
	tests := []struct {
		qname string
		edns  bool
		rcode int
		ede   string
	}{
		{"fails.", true, dns.RcodeServerFailure, ""},
		{"explains.", true, dns.RcodeServerFailure, "22 10.0.0.2: refused"},
		{"explains.", false, dns.RcodeServerFailure, ""},
		{"panics.", true, dns.RcodeServerFailure, "0 internal error"},
		{"panics.", true, dns.RcodeServerFailure, "0 internal error"},
		{"panics.", true, dns.RcodeServerFailure, "0 internal error"},
		{"nonsense.", true, dns.RcodeServerFailure, ""},
		{"nil.", false, dns.RcodeServerFailure, ""},
		{"extended.", true, dns.RcodeBadCookie, ""},
		{"extended.", false, dns.RcodeServerFailure, ""},
	}
	c := dial(t, UDP, addr)
	for _, tt := range tests {
		m := query(tt.qname, dns.TypeA)
		if tt.edns {
			m.SetEdns0(1232, false)
		}
		r := c.exchange(m)
		opt := r.IsEdns0()
		if r.Id != m.Id || r.Rcode != tt.rcode || (opt != nil) != tt.edns {
			t.Errorf("%s: got %v", tt.qname, r)
		}
		ede := ""
		if opt != nil && len(opt.Option) > 0 {
			e := opt.Option[0].(*dns.EDNS0_EDE)
			ede = fmt.Sprintf("%d %s", e.InfoCode, e.ExtraText)
		}
		if ede != tt.ede {
			t.Errorf("%s: EDE %q, want %q", tt.qname, ede, tt.ede)
		}
	}
	c.send(packed(t, query("silent.", dns.TypeA)))
	c.exchange(query("fails.", dns.TypeA)) // the first response is to this one
	got := s.Stats()
	// "nil." panics during packing. "silent." may not be counted yet.
	want := Stats{UDPQueries: 12, Answered: 2, Failed: 9, Silent: got.Silent, Panics: 4, InFlight: got.InFlight}
	if got != want {
		t.Errorf("counted %+v\nwant %+v", got, want)
	}
	if n := strings.Count(log.String(), "out of cheese"); n != 2 {
		t.Errorf("3 panics were logged %d times, want the 1st and the 2nd:\n%s", n, log.String())
	}
	if !strings.Contains(log.String(), "server_test.go") || !strings.Contains(log.String(), " condition=query-panic\n") {
		t.Error("the log does not say where it panicked")
	}
}

// TestShed: at MaxInFlight a query is refused at once. The next one is served when a slot is free.
func TestShed(t *testing.T) {
	t.Parallel()
	for _, proto := range []Proto{UDP, TCP} {
		t.Run(string(proto), func(t *testing.T) {
			entered, release := make(chan struct{}), make(chan struct{})
			s, addr := start(t, Config{MaxInFlight: 2, Handler: HandlerFunc(func(context.Context, *Query) (*dns.Msg, error) {
				entered <- struct{}{}
				<-release
				return new(dns.Msg), nil
			})})
			c := dial(t, proto, addr)
			first, second, third := query("one.test.", dns.TypeA), query("two.test.", dns.TypeA), query("three.test.", dns.TypeA, edns(1232))
			c.send(packed(t, first))
			c.send(packed(t, second))
			<-entered
			<-entered
			r := c.exchange(third)
			if r.Id != third.Id || r.Rcode != dns.RcodeServerFailure || r.IsEdns0() == nil {
				t.Errorf("third query: got %v, want SERVFAIL with an OPT record", r)
			} else if why := explanationOf(r); why == nil || why.InfoCode != dns.ExtendedErrorCodeOther || why.ExtraText != "too many pending queries" {
				t.Errorf("third query: %v", why)
			}
			close(release)
			for range 2 {
				if r := c.receive(); r.Rcode != dns.RcodeSuccess || r.Id == third.Id {
					t.Errorf("got %v", r)
				}
			}
			go func() { <-entered }()
			for s.Stats().InFlight != 0 { // the slot is released after the response
				time.Sleep(time.Millisecond)
			}
			if r := c.exchange(query("four.test.", dns.TypeA)); r.Rcode != dns.RcodeSuccess {
				t.Errorf("afterwards: got %v", r)
			}
			if got := s.Stats(); got.Shed != 1 || got.Answered != 3 {
				t.Errorf("got stats %+v", got)
			}
		})
	}
}

func TestTimeout(t *testing.T) {
	_, addr := start(t, Config{Timeout: 10 * time.Millisecond, Handler: HandlerFunc(func(ctx context.Context, _ *Query) (*dns.Msg, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})})
	if r := dial(t, UDP, addr).exchange(query("slow.test.", dns.TypeA)); r.Rcode != dns.RcodeServerFailure {
		t.Errorf("got %v", r)
	}
}

// BenchmarkUDP measures a query over loopback sockets through a Handler and back.
func BenchmarkUDP(b *testing.B) {
	s := New(Config{Handler: fixed("www.example.com. 60 A 192.0.2.1")})
	if err := s.Listen([]netip.AddrPort{anyPort}); err != nil {
		b.Fatal(err)
	}
	defer s.Shutdown(context.Background())
	addr := s.Listeners()[0].Addr
	wire := packed(b, query("www.example.com.", dns.TypeA, edns(1232)))
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		conn, err := net.Dial("udp", addr.String())
		if err != nil {
			b.Error(err)
			return
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(time.Minute))
		buf := make([]byte, 1<<16)
		for pb.Next() {
			if _, err := conn.Write(wire); err != nil {
				b.Error(err)
				return
			}
			if _, err := conn.Read(buf); err != nil {
				b.Error(err)
				return
			}
		}
	})
}
