package forward

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// startLossy starts n nameservers that serve a name with a response of about 1000 bytes, and that
// lose UDP responses of more than 600 bytes.
func startLossy(t *testing.T, n int) (servers []*dnstest.Server, r Route) {
	t.Helper()
	for range n {
		s := dnstest.NewServer(t, texts("large.example.", 4)+"www.example. 300 IN A 192.0.2.80\n")
		s.SetFaults(dnstest.Faults{MaxUDP: 600})
		servers = append(servers, s)
		r.Servers = append(r.Servers, plain(s))
	}
	return servers, r
}

func isLarge(m *dns.Msg) bool { return m != nil && len(m.Answer) == 4 }

// largeQueries returns the queries for the large name that servers got: "1232" requested that many
// bytes over UDP, "plain" had no EDNS.
func largeQueries(servers ...*dnstest.Server) (all []string) {
	for _, s := range servers {
		for _, q := range s.Received() {
			switch opt := q.Msg.IsEdns0(); {
			case q.Msg.Question[0].Name != "large.example.":
			case q.Network != "udp":
				all = append(all, q.Network)
			case opt == nil:
				all = append(all, "plain")
			case opt.UDPSize() == 512:
				all = append(all, "512")
			default:
				all = append(all, "1232")
			}
		}
	}
	return all
}

// TestLargeResponsesLost: a path that loses large UDP responses costs time but no answer. A
// query took a second, until its last try, and failed with four servers.
func TestLargeResponsesLost(t *testing.T) {
	t.Parallel()
	isSmall := func(s string) bool { return s == "512" || s == "plain" }
	signed := func(s string) bool { return s == "512" }
	for _, row := range []struct {
		name    string
		servers int
		change  func(*dns.Msg)
		small   func(string) bool // a query for a small response
	}{
		{"the only server", 1, func(*dns.Msg) {}, isSmall},
		{"both servers", 2, func(*dns.Msg) {}, isSmall},
		{"three servers", 3, func(*dns.Msg) {}, isSmall},
		{"five servers", 5, func(*dns.Msg) {}, isSmall},
		{"signed answers of the only server", 1, withDO, signed},
		{"signed answers of both servers", 2, withDO, signed},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			servers, r := startLossy(t, row.servers)
			f := newForward(t, func(c *Config) { c.TryTimeout, c.Silence, c.Deadline = 5*time.Second, 20*time.Second, 30*time.Second }, r.Servers...)
			if mustAnswer(t, f); row.change != nil { // the server is known to be up and to support EDNS
				m, _, err := askFor(t, f, "large.example.", dns.TypeTXT, row.change)
				if err != nil || !isLarge(m) {
					t.Fatalf("%v, %v", m, err)
				}
			}
			var small, overTCP int
			all := largeQueries(servers...)
			for _, q := range all {
				if row.small(q) {
					small++
				} else if q == "tcp" {
					overTCP++
				}
			}
			if len(all) > maxTries || small == 0 || overTCP != 1 {
				t.Errorf("got queries %v", all)
			}
			for _, s := range servers {
				for _, q := range s.Received() {
					if opt := q.Msg.IsEdns0(); q.Msg.Question[0].Name == "." && q.Network == "udp" && (opt == nil || opt.UDPSize() != 512) {
						t.Errorf("a check requested a response that may be lost: %v", q.Msg)
					}
				}
			}
		})
	}
}

// TestLargeResponsesLostAtFirst: a server whose first answers were lost because of their size is
// still queried with EDNS. Three answers without EDNS over TCP were mistaken for a rejection of
// EDNS, and DNSSEC signatures were missing for 15 minutes.
func TestLargeResponsesLostAtFirst(t *testing.T) {
	t.Parallel()
	servers, r := startLossy(t, 1)
	f := newForward(t, func(c *Config) { c.Silence, c.Deadline = 20*time.Second, 30*time.Second }, r.Servers...)
	for range 4 {
		if m, _, err := askFor(t, f, "large.example.", dns.TypeTXT); err != nil || !isLarge(m) {
			t.Fatalf("%v, %v", m, err)
		}
	}
	mustAnswer(t, f)
	for _, q := range servers[0].Received() {
		if q.Msg.Question[0].Name == "www.example." && q.Msg.IsEdns0() == nil {
			t.Errorf("got a query without EDNS: %v", q.Msg)
		}
	}
}

// TestLargeResponsesLostByOne: one of two servers loses large responses, and the other one is
// asked.
func TestLargeResponsesLostByOne(t *testing.T) {
	servers, r := startLossy(t, 2)
	servers[1].SetFaults(dnstest.Faults{})
	f := newForward(t, nil, r.Servers...)
	mustAnswer(t, f)
	if m, from, err := askFor(t, f, "large.example.", dns.TypeTXT); err != nil || !isLarge(m) || from != r.Servers[1] {
		t.Errorf("%v from %v, %v", m, from, err)
	}
}

// TestLargeResponsesLostAndTCPRefused: if TCP is closed as well, there is no answer. The client
// gets the reason, and nothing is remembered that would make later queries worse.
func TestLargeResponsesLostAndTCPRefused(t *testing.T) {
	t.Parallel()
	servers, r := startLossy(t, 1)
	servers[0].RefuseTCP()
	f := newForward(t, func(c *Config) { c.Deadline = 500 * time.Millisecond }, r.Servers...)
	asked := 0
	for range 4 {
		await(t, "the reason", func() bool { // a busy machine may have no time for TCP
			asked++
			_, _, err := askFor(t, f, "large.example.", dns.TypeTXT, withDO)
			var extended *dnsserver.ExtendedError
			return errors.As(err, &extended) && extended.Text == fmt.Sprintf("no response from %v (connection refused over TCP)", r.Servers[0])
		})
	}
	if all := largeQueries(servers...); len(all) > asked*maxTries || asked > 16 {
		t.Errorf("%d questions caused the queries %v", asked, all)
	}
	if s := stateOf(f, r.Servers[0]); s.UDPSize != 0 {
		t.Errorf("got UDP size %d, want 0", s.UDPSize)
	}
	awaitAnswer(t, f)
}

// TestUsableSizeIsRemembered: a server that loses large responses is asked for small ones, and over
// TCP at once, until a large one arrives.
func TestUsableSizeIsRemembered(t *testing.T) {
	t.Parallel()
	servers, r := startLossy(t, 1)
	var text lab.Text
	f := newForward(t, func(c *Config) { c.Deadline, c.Log = time.Second, logger(&text) }, r.Servers...)
	mustAnswer(t, f)
	await(t, "the size is remembered", func() bool {
		// A busy machine may not answer in time.
		_, _ = f.ServeDNS(context.Background(), clientQuery("large.example.", dns.TypeTXT))
		return stateOf(f, r.Servers[0]).UDPSize == dns.MinMsgSize
	})
	before := len(largeQueries(servers...))
	await(t, "answered", func() bool {
		m, err := f.ServeDNS(context.Background(), clientQuery("large.example.", dns.TypeTXT))
		return err == nil && isLarge(m)
	})
	for _, q := range largeQueries(servers...)[before:] {
		if q == "1232" {
			t.Errorf("got queries %v", largeQueries(servers...)[before:])
		}
	}
	const lost = "upstream loses large UDP responses"
	if got := text.String(); strings.Count(got, lost) != 1 || !strings.Contains(got, "askingFor=512") {
		t.Errorf("got log\n%s", got)
	}

	servers[0].SetFaults(dnstest.Faults{Raw: wholeOverUDP})
	await(t, "a large response has arrived", func() bool {
		_, _ = f.ServeDNS(context.Background(), clientQuery("large.example.", dns.TypeTXT))
		return stateOf(f, r.Servers[0]).UDPSize == 0
	})
	if got := text.String(); !strings.Contains(got, "upstream delivers large UDP responses again") {
		t.Errorf("got log\n%s", got)
	}
}

// wholeOverUDP is a Faults.Raw: it returns the response for the large name, whatever size the query
// requests.
func wholeOverUDP(query []byte) [][]byte {
	m := new(dns.Msg)
	if err := m.Unpack(query); err != nil {
		return nil
	}
	m.Response, m.Extra = true, nil
	for range 4 {
		header := dns.RR_Header{Name: m.Question[0].Name, Rrtype: dns.TypeTXT, Class: dns.ClassINET, Ttl: 1}
		m.Answer = append(m.Answer, &dns.TXT{Hdr: header, Txt: []string{strings.Repeat("x", 250)}})
	}
	wire, err := m.Pack()
	if err != nil {
		return nil
	}
	return [][]byte{wire}
}
