package dnsserver

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
)

func networks(texts ...string) *Networks {
	list := make([]netip.Prefix, 0, len(texts))
	for _, text := range texts {
		list = append(list, netip.MustParsePrefix(text))
	}
	return NewNetworks(list)
}

// mustNotBeAsked returns a Config whose Handler, WireFunc and MissFunc fail the test when called.
func mustNotBeAsked(t *testing.T) Config {
	return Config{
		Handler: HandlerFunc(func(_ context.Context, q *Query) (*dns.Msg, error) {
			t.Errorf("the Handler was called for %v", q.Msg.Question)
			return new(dns.Msg), nil
		}),
		Wire: func([]byte, *WireQuery) ([]byte, bool) {
			t.Error("Wire was called")
			return nil, false
		},
		Miss: func(*PendingQuery) bool {
			t.Error("Miss was called")
			return false
		},
	}
}

// TestStrangers: a client that is not allowed gets a refusal no longer than its query, whatever it
// sends, and nothing else happens.
func TestStrangers(t *testing.T) {
	cookie := &dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: "0123456789abcdef"}
	padding := &dns.EDNS0_PADDING{Padding: make([]byte, 100)}
	const nothing, opt, code, text = 0, 1, 2, 3 // how much the response explains
	tests := []struct {
		name string
		wire []byte
		udp  int
		tcp  int
	}{
		{"without EDNS", packed(t, query("www.example.com.", dns.TypeA)), nothing, nothing},
		{"with EDNS", packed(t, query("www.example.com.", dns.TypeA, edns(4096))), opt, text},
		{"with a cookie, like dig", packed(t, query("www.example.com.", dns.TypeA, edns(1232, cookie))), code, text},
		{"with padding", packed(t, query("www.example.com.", dns.TypeANY, edns(1232, padding))), text, text},
		{"the longest name", packed(t, query(longest, dns.TypeTXT, edns(4096))), opt, text},
		{"NOTIFY", packed(t, query("example.com.", dns.TypeSOA, func(m *dns.Msg) { m.Opcode = dns.OpcodeNotify })), nothing, nothing},
		{"AXFR", packed(t, query("example.com.", dns.TypeAXFR)), nothing, nothing},
		{"no question", packed(t, new(dns.Msg)), nothing, nothing},
		{"class CHAOS", packed(t, query("version.bind.", dns.TypeTXT, func(m *dns.Msg) { m.Question[0].Qclass = dns.ClassCHAOS })), nothing, nothing},
	}
	cfg := mustNotBeAsked(t)
	cfg.Access = &Access{Clients: networks("192.0.2.0/24")}
	s, addr := start(t, cfg)
	for _, tt := range tests {
		for _, proto := range []Proto{UDP, TCP} {
			t.Run(fmt.Sprint(tt.name, " ", proto), func(t *testing.T) {
				c := dial(t, proto, addr)
				c.send(tt.wire)
				wire := c.receiveWire()
				m := new(dns.Msg)
				if err := m.Unpack(wire); err != nil {
					t.Fatal(err)
				}
				if m.Rcode != dns.RcodeRefused || !m.Response || m.Id != binary.BigEndian.Uint16(tt.wire) || len(m.Answer)+len(m.Ns) > 0 {
					t.Errorf("got %v", m)
				}
				said, want := nothing, tt.udp
				if proto == TCP {
					want = tt.tcp
				} else if len(wire) > len(tt.wire) {
					t.Errorf("response has %d octets, query has %d", len(wire), len(tt.wire))
				}
				if o := m.IsEdns0(); o != nil {
					said = opt
					if len(o.Option) > 0 {
						e := o.Option[0].(*dns.EDNS0_EDE)
						if said = code; e.ExtraText != "" {
							said = text
						}
						if e.InfoCode != dns.ExtendedErrorCodeProhibited {
							t.Errorf("Extended DNS Error %d", e.InfoCode)
						}
					}
				}
				if said != want {
					t.Errorf("explained %d, want %d: %v", said, want, m)
				}
				if proto == TCP {
					if _, err := c.conn.Read(make([]byte, 1)); err == nil {
						t.Error("the connection stays open")
					}
				}
			})
		}
	}
	if got := s.Stats(); got.Strangers != uint64(2*len(tests)) || got.Answered+got.Refused != 0 {
		t.Errorf("got stats %+v", got)
	}
}

var longest = func() string {
	name := ""
	for range 3 {
		name += "a23456789012345678901234567890123456789012345678901234567890123."
	}
	return name + "b2345678901234567890123456789012345678901234567890123456789012."[:61] + "."
}()

// TestAccessChanges: a network may send queries as soon as it is allowed, even on a socket that
// stays, and some addresses may have a different client list.
func TestAccessChanges(t *testing.T) {
	s, addr := start(t, Config{Handler: fixed("www.example.com. A 192.0.2.80"), Access: &Access{Clients: networks("192.0.2.0/24")}})
	c := dial(t, UDP, addr)
	ask := func(want int) {
		t.Helper()
		if r := c.exchange(query("www.example.com.", dns.TypeA)); r.Rcode != want {
			t.Errorf("got %v, want rcode %d", r, want)
		}
	}
	ask(dns.RcodeRefused)
	s.SetAccess(&Access{Clients: networks("127.0.0.0/8")})
	ask(dns.RcodeSuccess)
	s.SetAccess(&Access{Clients: networks("127.0.0.0/8"), At: map[netip.AddrPort]*Networks{addr: networks("192.0.2.0/24")}})
	ask(dns.RcodeRefused)
	s.SetAccess(&Access{At: map[netip.AddrPort]*Networks{netip.MustParseAddrPort("192.0.2.1:53"): networks("192.0.2.0/24")}})
	ask(dns.RcodeSuccess)
	s.SetAccess(nil)
	ask(dns.RcodeSuccess)
}

// TestRefusalsAreLimited counts, with the clock of a synctest bubble, how many responses a forged
// source can cause.
func TestRefusalsAreLimited(t *testing.T) {
	faulty := packed(t, query("example.com.", dns.TypeSOA, func(m *dns.Msg) { m.Opcode = dns.OpcodeNotify }))
	tests := []struct {
		name   string
		client string
		proto  Proto
		want   int // of 1000 a second for 3 seconds
	}{
		{"unknown client over UDP", "198.51.100.1", UDP, 100 + 2*100 + 270},
		{"unknown client over TCP", "198.51.100.1", TCP, 3000},
		{"this host over UDP", "192.0.2.10", UDP, 3000},
	}
	responses := map[string]func(s *Server, x exchange) []byte{
		"stranger": func(s *Server, x exchange) []byte { return s.deny(x, stranger) },
		"hasty":    func(s *Server, x exchange) []byte { return s.deny(x, hasty) },
		"fault":    func(s *Server, x exchange) []byte { return s.refuse(x, dns.RcodeNotImplemented) },
	}
	for _, tt := range tests {
		for why, respond := range responses {
			t.Run(tt.name+" "+why, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := New(Config{Handler: fixed(), Access: &Access{Clients: networks("192.0.2.0/24"), Host: networks("192.0.2.10/32")}})
					defer s.cancel()
					x := exchange{wire: faulty, client: netip.AddrPortFrom(netip.MustParseAddr(tt.client), 53), proto: tt.proto}
					sent := 0
					for range 3 {
						for range 1000 {
							if respond(s, x) != nil {
								sent++
							}
						}
						time.Sleep(time.Second)
					}
					if sent != tt.want {
						t.Errorf("sent %d of 3000, want %d", sent, tt.want)
					}
					if silenced := int(s.Stats().Silenced); tt.want < 3000 && silenced != 2700 || tt.want == 3000 && silenced != 0 {
						t.Errorf("got %d queries counted as over the limit", silenced)
					}
				})
			})
		}
	}
}

// TestKnownClientIsRefused: a client that presents the cookie issued to its address always gets a
// response, no longer than its query. A client with another client's cookie, or one older than an
// hour, is limited like any other.
func TestKnownClientIsRefused(t *testing.T) {
	const own, other = "198.51.100.1", "198.51.100.2"
	for _, row := range []struct {
		name, given string // client that the cookie was issued to; "" means none
		after       time.Duration
		silenced    bool
	}{
		{"cookie of the client", own, 0, false},
		{"expired cookie", own, 2 * time.Hour, true},
		{"cookie of another client", other, 0, true},
		{"none", "", 0, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := New(Config{Handler: fixed(), Access: &Access{Clients: networks("192.0.2.0/24")}})
				defer s.cancel()
				cookie := []byte("\x01\x02\x03\x04\x05\x06\x07\x08")
				if row.given != "" {
					cookie = s.cookies.Append(cookie, cookie, netip.MustParseAddr(row.given), time.Now())
				}
				time.Sleep(row.after)
				option := &dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: hex.EncodeToString(cookie)}
				x := exchange{wire: packed(t, query("www.example.com.", dns.TypeA, edns(1232, option))), client: netip.MustParseAddrPort(own + ":53")}
				for range 1000 {
					if response := s.deny(x, stranger); len(response) > len(x.wire) {
						t.Fatalf("response has %d octets, query has %d", len(response), len(x.wire))
					}
				}
				if got := s.Stats().Silenced > 0; got != row.silenced {
					t.Errorf("%d of 1000 were over the limit", s.Stats().Silenced)
				}
			})
		})
	}
}

// TestParsedRefusalsAreLimited: queries that are refused after parsing count too.
func TestParsedRefusalsAreLimited(t *testing.T) {
	s := New(Config{Handler: fixed(), Access: &Access{}})
	defer s.cancel()
	for name, m := range map[string]*dns.Msg{
		"AXFR":    query("example.com.", dns.TypeAXFR),
		"BADVERS": query("example.com.", dns.TypeA, edns(1232), func(m *dns.Msg) { m.IsEdns0().SetVersion(1) }),
	} {
		x := exchange{wire: packed(t, m), client: netip.MustParseAddrPort("198.51.100.1:53"), proto: UDP}
		before := s.Stats().Silenced
		for range 2000 {
			s.serve(x, nil)
		}
		if s.Stats().Silenced == before {
			t.Errorf("%s: got 0 of 2000 queries over the limit", name)
		}
	}
}

// TestHasty: with Rate, each client gets that many queries per second, independent of other
// clients. This host has no limit.
func TestHasty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{Handler: fixed(), Access: &Access{Host: networks("192.0.2.10/32"), Rate: 20}})
		defer s.cancel()
		local := netip.MustParseAddrPort("192.0.2.10:53")
		taken := func(client string) (n int) {
			for range 100 {
				if s.access.Load().denies(local, netip.MustParseAddr(client)) == allowed {
					n++
				}
			}
			return n
		}
		if n := taken("192.0.2.1"); n != 20 {
			t.Errorf("allowed %d of 100 at once, want 20", n)
		}
		if n := taken("192.0.2.2"); n != 20 {
			t.Errorf("allowed %d for its neighbor, want 20", n)
		}
		if n := taken("192.0.2.10"); n != 100 {
			t.Errorf("allowed %d for this host, want 100", n)
		}
		s.SetAccess(&Access{Host: networks("192.0.2.10/32"), Rate: 20})
		if n := taken("192.0.2.1"); n != 0 {
			t.Errorf("allowed %d more after a reload without changes", n)
		}
		time.Sleep(time.Second)
		if n := taken("192.0.2.1"); n != 20 {
			t.Errorf("allowed %d a second later, want 20", n)
		}
		s.SetAccess(&Access{})
		if n := taken("192.0.2.1"); n != 100 {
			t.Errorf("allowed %d without a rate, want 100", n)
		}
	})
}

// TestHastyIsRefused tests Rate over sockets.
func TestHastyIsRefused(t *testing.T) {
	for _, proto := range []Proto{UDP, TCP} {
		t.Run(string(proto), func(t *testing.T) {
			s, addr := start(t, Config{Handler: fixed("www.example.com. A 192.0.2.80"), Access: &Access{Rate: 1}})
			c := dial(t, proto, addr)
			refused := 0
			for range 20 {
				if r := c.exchange(query("www.example.com.", dns.TypeA, edns(1232))); r.Rcode == dns.RcodeRefused {
					refused++
				}
			}
			if got := s.Stats(); refused == 0 || refused == 20 || got.Hasty != uint64(refused) || got.Answered != uint64(20-refused) {
				t.Errorf("%d refused, counted %+v", refused, got)
			}
		})
	}
}

// from connects from the given source address, which must be local.
func from(t testing.TB, source string, proto Proto, addr netip.AddrPort) *client {
	t.Helper()
	var local net.Addr = &net.UDPAddr{IP: net.ParseIP(source)}
	if proto == TCP {
		local = &net.TCPAddr{IP: net.ParseIP(source)}
	}
	d := net.Dialer{LocalAddr: local, Timeout: time.Minute}
	conn, err := d.Dial(string(proto), addr.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(time.Minute))
	return &client{t: t, conn: conn, proto: proto}
}

// TestCrowding: a client whose queries are never answered gets half of the slots, and two such
// clients get a third each. Further queries are refused at once with an explanation. Other clients
// are still answered.
func TestCrowding(t *testing.T) {
	const places, shared, asked = 200, 90, 150
	for _, proto := range []Proto{UDP, TCP} {
		t.Run(string(proto), func(t *testing.T) {
			release := make(chan struct{})
			var held atomic.Int64 // queries with a slot; Stats.InFlight also has those that are about to be refused
			s, addr := start(t, Config{
				MaxInFlight: places, Shared: shared, Timeout: time.Minute, MaxPipelined: asked,
				Handler: HandlerFunc(func(_ context.Context, q *Query) (*dns.Msg, error) {
					if q.Name.Relative() == "silent.test" {
						held.Add(1)
						<-release
					}
					return new(dns.Msg), nil
				}),
			})
			defer close(release)
			slack := int64(0)
			if proto == TCP { // its queries check the free slots at once, so a few more may get one
				slack = 5
			}
			silent := packed(t, query("silent.test.", dns.TypeA, edns(1232)))
			before := int64(0)
			for i, source := range []string{"127.0.0.2", "127.0.0.3"} {
				hostile := from(t, source, proto, addr)
				for range asked {
					hostile.send(silent)
				}
				want := []int64{45, 45 + 23}[i] // of 90: a client holds at most as many as are then free
				for deadline := time.Now().Add(20 * time.Second); int64(s.Stats().Crowding)+held.Load() != int64(asked*(i+1)); time.Sleep(time.Millisecond) {
					if time.Now().After(deadline) {
						t.Fatalf("%d in flight and %d refused", held.Load(), s.Stats().Crowding)
					}
				}
				got := held.Load()
				if got < want || got > want+slack {
					t.Errorf("%d in flight, want %d", got, want)
				}
				for range asked - (got - before) {
					r := hostile.receive()
					if ede := explanationOf(r); r.Rcode != dns.RcodeServerFailure || ede == nil || ede.ExtraText == "" {
						t.Fatalf("got %v, want SERVFAIL with a reason", r)
					}
				}
				before = got
			}
			good := from(t, "127.0.0.4", proto, addr)
			for range 50 {
				if r := good.exchange(query("good.test.", dns.TypeA)); r.Rcode != dns.RcodeSuccess {
					t.Fatalf("another client: got %v", r)
				}
			}
			if got := s.Stats(); int64(got.Crowding) != 2*asked-before || got.Shed != 0 {
				t.Errorf("got stats %+v", got)
			}
		})
	}
}

func explanationOf(m *dns.Msg) *dns.EDNS0_EDE {
	if opt := m.IsEdns0(); opt != nil && len(opt.Option) > 0 {
		e, _ := opt.Option[0].(*dns.EDNS0_EDE)
		return e
	}
	return nil
}

// TestSlowUpstreamColdClients: 200 clients that send queries at once for names that take 800 ms to
// resolve all get answers. Each has a share, and no query is dropped because of its age (unbound
// 1.26 answers none of them).
func TestSlowUpstreamColdClients(t *testing.T) {
	s, addr := start(t, Config{Handler: HandlerFunc(func(context.Context, *Query) (*dns.Msg, error) {
		time.Sleep(800 * time.Millisecond)
		return new(dns.Msg), nil
	})})
	var all sync.WaitGroup
	for i := range 200 {
		c := from(t, fmt.Sprintf("127.0.1.%d", i+1), UDP, addr)
		all.Go(func() {
			if r := c.exchange(query(fmt.Sprintf("n%d.test.", i), dns.TypeA)); r.Rcode != dns.RcodeSuccess {
				t.Errorf("client %d: %v", i, r)
			}
		})
	}
	all.Wait()
	if got := s.Stats(); got.Answered != 200 {
		t.Errorf("got stats %+v", got)
	}
}

// BenchmarkAccess measures the access check of a client.
func BenchmarkAccess(b *testing.B) {
	near := networks("127.0.0.0/8", "10.128.0.0/14", "172.30.0.0/16", "192.0.2.0/24", "169.254.0.0/16", "fe80::/10", "::1/128")
	local, client := netip.MustParseAddrPort("192.0.2.10:53"), netip.MustParseAddr("10.129.3.4")
	for name, access := range map[string]*Access{
		"everyone":    nil,
		"networks":    {Clients: near},
		"with a rate": {Clients: near, Rate: 1_000_000_000},
	} {
		s := New(Config{Handler: fixed(), Access: access})
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if s.access.Load().denies(local, client) != allowed {
					b.Fatal("denied")
				}
			}
		})
		s.cancel()
	}
}
