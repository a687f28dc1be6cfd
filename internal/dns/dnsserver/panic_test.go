package dnsserver

import (
	"context"
	"fmt"
	"net/netip"
	"testing"

	"github.com/miekg/dns"
)

// TestPanicAnywhere: whatever panics while a query is answered, the client gets SERVFAIL, with an
// explanation if there is room. The same goroutines answer the next query, and the server stops
// cleanly.
func TestPanicAnywhere(t *testing.T) {
	handler := func(answer func(q *Query) (*dns.Msg, error)) func(*Server) {
		return func(s *Server) {
			s.cfg.Handler = HandlerFunc(func(_ context.Context, q *Query) (*dns.Msg, error) {
				if q.Name.Relative() == "fine" {
					return new(dns.Msg).SetReply(q.Msg), nil
				}
				return answer(q)
			})
		}
	}
	const told = "SERVFAIL 0 internal error"
	for _, row := range []struct {
		name  string
		spoil func(*Server)
		udp   string
		tcp   string
	}{
		{"Handler", handler(func(*Query) (*dns.Msg, error) { panic("here") }), told, told},
		{"its message", handler(func(*Query) (*dns.Msg, error) { return &dns.Msg{Answer: []dns.RR{(*dns.A)(nil)}}, nil }), told, told},
		{"Wire, the Handler answers instead", func(s *Server) {
			s.cfg.Wire = func([]byte, *WireQuery) ([]byte, bool) { panic("here") }
		}, "NOERROR", "NOERROR"},
		{"Miss, the Handler answers instead", func(s *Server) { s.cfg.Miss = func(*PendingQuery) bool { panic("here") } }, "NOERROR", "NOERROR"},
		{"receiving goroutine", func(s *Server) {
			tripped := false // used by one goroutine only
			s.pending.New = func() any {
				if tripped {
					return nil
				}
				tripped = true
				panic("here")
			}
		}, "SERVFAIL", "NOERROR"},
	} {
		for proto, want := range map[Proto]string{UDP: row.udp, TCP: row.tcp} {
			t.Run(fmt.Sprintf("%s over %s", row.name, proto), func(t *testing.T) {
				s := New(Config{})
				handler(func(q *Query) (*dns.Msg, error) { return new(dns.Msg).SetReply(q.Msg), nil })(s)
				row.spoil(s)
				if err := s.Listen([]netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}); err != nil {
					t.Fatal(err)
				}
				c := dial(t, proto, s.Listeners()[0].Addr)
				if got := outcome(c.exchange(query("broken.", dns.TypeA, edns(1232)))); got != want {
					t.Errorf("got %q, want %q", got, want)
				}
				if got := outcome(c.exchange(query("fine.", dns.TypeA, edns(1232)))); got != "NOERROR" {
					t.Errorf("the next query got %q", got)
				}
				stats := s.Stats()
				if want != "NOERROR" && stats.Panics != 1 {
					t.Errorf("counted %d panics", stats.Panics)
				}
				if err := s.Shutdown(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// outcome returns the rcode and the Extended DNS Error of a response.
func outcome(m *dns.Msg) string {
	text := dns.RcodeToString[m.Rcode]
	if opt := m.IsEdns0(); opt != nil {
		for _, option := range opt.Option {
			e := option.(*dns.EDNS0_EDE)
			text += fmt.Sprintf(" %d %s", e.InfoCode, e.ExtraText)
		}
	}
	return text
}
