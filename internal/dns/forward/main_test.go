package forward

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/miekg/dns"
	"go.uber.org/goleak"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/internal/test/lab"
)

func TestMain(m *testing.M) {
	lab.Overlap(16)
	goleak.VerifyTestMain(m)
}

const world = `
	www.example.   300 IN A 192.0.2.80
	www.example.   300 IN AAAA 2001:db8::80
	alias.example. 300 IN CNAME www.example.
	big.example.   300 IN TXT "one"
`

func plain(s *dnstest.Server) nameserver.Server { return nameserver.Server{Addr: s.Addr()} }

// startServers starts n nameservers that serve world.
func startServers(t *testing.T, n int) (servers []*dnstest.Server, addresses []nameserver.Server) {
	t.Helper()
	for range n {
		s := dnstest.NewServer(t, world)
		servers = append(servers, s)
		addresses = append(addresses, plain(s))
	}
	return servers, addresses
}

// newForward has short timeouts, so that tests are fast. No assertion depends on their values.
func newForward(t testing.TB, change func(*Config), servers ...nameserver.Server) *Forward {
	t.Helper()
	c := Config{
		Routes:     []Route{{Servers: servers}},
		TryTimeout: 100 * time.Millisecond,
		Deadline:   3 * time.Second,
	}
	if change != nil {
		change(&c)
	}
	if c.Silence == 0 {
		c.Silence = c.Deadline
	}
	f := New(c)
	t.Cleanup(f.Close)
	return f
}

// persistent keeps the short tries, but a question may take as long as a busy machine needs.
func persistent(c *Config) { c.Silence, c.Deadline = 20*time.Second, 20*time.Second }

func patient(c *Config) {
	c.Hedge, c.TryTimeout, c.Deadline = 20*time.Second, 20*time.Second, 30*time.Second
}

func askFor(t testing.TB, f *Forward, name string, qtype uint16, change ...func(*dns.Msg)) (*dns.Msg, nameserver.Server, error) {
	t.Helper()
	q := clientQuery(name, qtype, change...)
	m, err := f.ServeDNS(context.Background(), q)
	if err == nil && (m.Id != q.Msg.Id || len(m.Question) != 1 || m.Question[0] != q.Msg.Question[0]) {
		t.Errorf("response to another query:\n%v", m)
	}
	return m, q.AnsweredBy, err
}

// mustAnswer queries the address of www.example. and fails the test unless it gets the right one.
func mustAnswer(t testing.TB, f *Forward) nameserver.Server {
	t.Helper()
	m, from, err := askFor(t, f, "www.example.", dns.TypeA)
	if err != nil {
		t.Fatal(err)
	}
	if !isTrue(m) {
		t.Fatalf("answer\n%v", m)
	}
	return from
}

// awaitAnswer is mustAnswer for a Forward whose questions end before a busy machine has answered.
func awaitAnswer(t testing.TB, f *Forward) (from nameserver.Server) {
	t.Helper()
	await(t, "the right answer", func() bool {
		m, server, err := askFor(t, f, "www.example.", dns.TypeA)
		from = server
		return err == nil && isTrue(m)
	})
	return from
}

func isTrue(m *dns.Msg) bool {
	if m.Rcode != dns.RcodeSuccess || len(m.Answer) != 1 {
		return false
	}
	a, ok := m.Answer[0].(*dns.A)
	return ok && a.A.String() == "192.0.2.80"
}

// await waits until a condition holds.
func await(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !holds(); {
		if time.Now().After(deadline) {
			t.Fatalf("not within 20 s: %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

func stateOf(f *Forward, s nameserver.Server) ServerStatus {
	for _, r := range f.Status() {
		for _, status := range r.Servers {
			if status.Server == s {
				return status
			}
		}
	}
	return ServerStatus{}
}

// logger returns a logger that writes to text, without attributes that differ from run to run.
func logger(text *lab.Text) *slog.Logger {
	return slog.New(slog.NewTextHandler(text, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == "rtt" {
			return slog.Attr{}
		}
		return a
	}}))
}
