package dnsserver

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// TestLongQueries: a pending query takes the same memory however long it is. Clients with thousands
// of pending queries of 64 KiB took more than the unit's memory limit.
func TestLongQueries(t *testing.T) {
	padding := &dns.EDNS0_PADDING{Padding: make([]byte, 60_000)}
	cookie := &dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: "0102030405060708"}
	key := &dns.KEY{DNSKEY: dns.DNSKEY{Hdr: dns.RR_Header{Name: ".", Rrtype: dns.TypeKEY, Class: dns.ClassINET}, PublicKey: "AAAA"}}
	for _, test := range []struct {
		name  string
		query *dns.Msg
		miss  bool // Config.Miss gets it
		rcode int
	}{
		{"padding", query("www.example.com.", dns.TypeA, edns(1232, padding)), true, 0},
		{"padding and a cookie", query("www.example.com.", dns.TypeA, edns(1232, padding, cookie)), true, 0},
		{"a cookie and padding, DO", query("www.example.com.", dns.TypeA, edns(1232, cookie, padding), func(m *dns.Msg) { m.IsEdns0().SetDo() }), true, 0},
		{"another record", query("www.example.com.", dns.TypeA, edns(1232, cookie, padding), func(m *dns.Msg) { m.Extra = append(m.Extra, key) }), false, 0},
		{"class CH", query("version.bind.", dns.TypeTXT, edns(1232, cookie, padding), func(m *dns.Msg) { m.Question[0].Qclass = dns.ClassCHAOS }), false, 0},
		{"another version", query("www.example.com.", dns.TypeA, edns(1232, padding), func(m *dns.Msg) { m.IsEdns0().SetVersion(1) }), false, dns.RcodeBadVers},
	} {
		for _, network := range []string{"udp", "tcp"} {
			t.Run(test.name+" over "+network, func(t *testing.T) {
				missed, kept := make(chan WireQuery, 1), make(chan int, 2)
				s, addr := start(t, Config{
					Miss: func(l *PendingQuery) bool {
						missed <- *l.Query()
						kept <- len(l.x.wire)
						return false
					},
					Handler: HandlerFunc(func(_ context.Context, q *Query) (*dns.Msg, error) {
						if opt := q.Msg.IsEdns0(); opt == nil || len(opt.Option) > 0 || opt.Do() != test.query.IsEdns0().Do() {
							t.Errorf("the Handler got %v", q.Msg)
						}
						return new(dns.Msg), nil
					}),
				})
				s.SetWatch(func(one Seen) { kept <- len(one.Query) }, 0)
				conn, err := net.Dial(network, addr.String())
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				client := dns.Client{Net: network, Timeout: time.Minute, UDPSize: 1232}
				m, _, err := client.ExchangeWithConn(test.query.Copy(), &dns.Conn{Conn: conn, UDPSize: 1232})
				if err != nil {
					t.Fatal(err)
				}
				hasCookie := false
				for _, option := range m.IsEdns0().Option {
					hasCookie = hasCookie || option.Option() == dns.EDNS0COOKIE
				}
				wants := test.rcode == 0 && len(test.query.IsEdns0().Option) == 2
				if m.Rcode != test.rcode || hasCookie != wants || m.IsEdns0().Do() != test.query.IsEdns0().Do() {
					t.Errorf("got\n%v", m)
				}
				if n := <-kept; n > shortQuery && test.rcode == 0 {
					t.Errorf("%d bytes were kept", n)
				}
				if network == "tcp" || !test.miss {
					return
				}
				if q := <-missed; q.DO != test.query.IsEdns0().Do() || q.cookie > 0 != wants {
					t.Errorf("Miss got a query with DO %v and a cookie at %d", q.DO, q.cookie)
				}
			})
		}
	}
}
