package forward

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/exchange"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/test/dnstest"
)

// overTLS returns a DNS over TLS server with the name in its certificate.
func overTLS(s *dnstest.Server) nameserver.Server {
	return nameserver.Server{Addr: s.Addr(), TLS: true, Name: dnstest.TLSName}
}

func trusting(s *dnstest.Server) func(*Config) {
	return func(c *Config) { patient(c); c.RootCAs = s.CertPool() }
}

// connections returns the number of connections that carried queries.
func connections(s *dnstest.Server) int {
	ports := map[uint16]bool{}
	for _, q := range s.Received() {
		ports[q.Client.Port()] = true
	}
	return len(ports)
}

func TestTLSOneConnectionForAll(t *testing.T) {
	s := dnstest.NewTLSServer(t, world)
	f := newForward(t, trusting(s), overTLS(s))
	var clients sync.WaitGroup
	for i := range 200 {
		clients.Go(func() {
			m, from, err := askFor(t, f, fmt.Sprintf("n%d.example.", i), dns.TypeA)
			if err != nil || m.Rcode != dns.RcodeNameError || from != overTLS(s) {
				t.Errorf("%v from %v: %v", m, from, err)
			}
		})
	}
	clients.Wait()
	mustAnswer(t, f)
	if n := connections(s); n != 1 {
		t.Errorf("got %d connections", n)
	}
	for _, q := range s.Received() {
		if q.Network != "tls" {
			t.Fatalf("got a query over %s", q.Network)
		}
		if wire, err := q.Msg.Pack(); err != nil || len(wire)%paddedTo != 0 {
			t.Fatalf("got a query of %d octets, error %v", len(wire), err)
		}
	}
}

func TestTLSByAddress(t *testing.T) {
	s := dnstest.NewTLSServer(t, world)
	mustAnswer(t, newForward(t, trusting(s), nameserver.Server{Addr: s.Addr(), TLS: true}))
}

// TestTLSIsNeverDowngraded: a server that fails authentication is not asked, neither over TLS nor
// unencrypted.
func TestTLSIsNeverDowngraded(t *testing.T) {
	secure, other, open := dnstest.NewTLSServer(t, world), dnstest.NewTLSServer(t, world), dnstest.NewServer(t, world)
	rows := []struct {
		name   string
		server *dnstest.Server
		asName string
		roots  *x509.CertPool
		words  string
	}{
		{"another name", secure, "resolver.example", secure.CertPool(), "certificate refused"},
		{"an unknown CA", secure, dnstest.TLSName, other.CertPool(), "certificate refused"},
		{"address in the certificate, unknown CA", secure, "", other.CertPool(), "certificate refused"},
		{"no TLS", open, dnstest.TLSName, secure.CertPool(), ""},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			address := nameserver.Server{Addr: row.server.Addr(), TLS: true, Name: row.asName}
			f := newForward(t, func(c *Config) {
				patient(c)
				c.RootCAs = row.roots
				if row.server == open { // the plain server takes the handshake for a long query and waits for the rest
					c.Deadline = 100 * time.Millisecond
				}
			}, address)
			_, _, err := askFor(t, f, "www.example.", dns.TypeA)
			var extended *dnsserver.ExtendedError
			if !errors.As(err, &extended) || !strings.Contains(extended.Text, row.words) {
				t.Errorf("got %v", err)
			}
			if n := row.server.Queries(); n != 0 {
				t.Errorf("got %d queries, want 0", n)
			}
		})
	}
}

// TestTLSOutOfOrder: a slow answer does not delay the next one (RFC 7766 section 7).
func TestTLSOutOfOrder(t *testing.T) {
	s := dnstest.NewTLSServer(t, world)
	s.SetFaultsFor("slow.example.", dnstest.Faults{Drop: true})
	f := newForward(t, trusting(s), overTLS(s))
	var client sync.WaitGroup
	client.Go(func() {
		if _, _, err := askFor(t, f, "slow.example.", dns.TypeA); err == nil {
			t.Error("got an answer to a dropped query")
		}
	})
	await(t, "the slow one is in flight", func() bool { return s.QueriesFor("slow.example.", dns.TypeA) == 1 })
	mustAnswer(t, f)
	if n := connections(s); n != 1 {
		t.Errorf("got %d connections", n)
	}
	f.Close()
	client.Wait()
}

// TestTLSConnectionClosedByTheServer: servers may close idle connections at any time. That is not a
// failure.
func TestTLSConnectionClosedByTheServer(t *testing.T) {
	s := dnstest.NewTLSServer(t, world)
	f := newForward(t, trusting(s), overTLS(s))
	for range 5 {
		mustAnswer(t, f)
		s.CloseConnections()
	}
	if got := stateOf(f, overTLS(s)); got.Failures != 0 || got.State != exchange.Up {
		t.Errorf("got status %+v", got)
	}
}

func TestTLSDownAndUp(t *testing.T) {
	s := dnstest.NewTLSServer(t, world)
	f := newForward(t, trusting(s), overTLS(s))
	mustAnswer(t, f)
	s.Down()
	if _, _, err := askFor(t, f, "www.example.", dns.TypeA); !errors.Is(err, ErrNoResponse) {
		t.Errorf("while down: %v", err)
	}
	if err := s.Up(); err != nil {
		t.Fatal(err)
	}
	mustAnswer(t, f)
}

// TestTLSSilentConnectionIsReplaced: a connection may be dead without notice. If nothing arrives
// over it for the time of a try, the question and all later ones use a new connection.
func TestTLSSilentConnectionIsReplaced(t *testing.T) {
	s := dnstest.NewTLSServer(t, world)
	s.SetFaults(dnstest.Faults{Drop: true})
	f := newForward(t, func(c *Config) {
		trusting(s)(c)
		c.Hedge, c.TryTimeout = 50*time.Millisecond, 50*time.Millisecond
	}, overTLS(s))
	var client sync.WaitGroup
	client.Go(func() { _, _, _ = askFor(t, f, "silent.example.", dns.TypeA) }) // may end only with Close
	await(t, "the question to be asked over a new connection", func() bool { return connections(s) > 1 })
	dead, before := s.Received()[0].Client, len(s.Received())
	s.SetFaults(dnstest.Faults{})
	// If the time of a try is too short for this machine, a working connection is sometimes
	// replaced, too.
	shares := func() bool {
		askFor(t, f, "www.example.", dns.TypeA)
		received := s.Received()
		return len(received) > before+1 && received[len(received)-1].Client == received[len(received)-2].Client
	}
	await(t, "the next question to share a connection with the one before", shares)
	for _, q := range s.Received()[before:] {
		if q.Client == dead {
			t.Error("a closed connection was used again")
		}
	}
	f.Close()
	client.Wait()
}

func TestTLSForgeriesAreIgnored(t *testing.T) {
	for name, faults := range map[string]dnstest.Faults{
		"wrong ID":       {WrongID: true, ThenOK: true},
		"wrong question": {WrongQuestion: true, ThenOK: true},
		"garbage":        {Garbage: true, ThenOK: true},
		"empty":          {Empty: true, ThenOK: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := dnstest.NewTLSServer(t, world)
			s.SetFaults(faults)
			mustAnswer(t, newForward(t, trusting(s), overTLS(s)))
		})
	}
}

// TestTLSCloseWhileConnecting: Close ends a handshake that no question waits for.
func TestTLSCloseWhileConnecting(t *testing.T) {
	release := make(chan struct{})
	at, accepted := listenWithoutTLS(t, func(net.Conn) { <-release }) // never sends anything
	t.Cleanup(func() { close(release) })
	silent := nameserver.Server{Addr: at, TLS: true}
	f := newForward(t, patient, silent)
	var client sync.WaitGroup
	client.Go(func() {
		if _, _, err := askFor(t, f, "www.example.", dns.TypeA); err == nil {
			t.Error("got an answer from a silent server")
		}
	})
	await(t, "connecting", func() bool { return accepted.Load() > 0 })
	f.Close()
	client.Wait()
}

// TestTLSResumedAsAnother: a resumed session is checked against the current name and CAs. A server
// that keeps its ticket key but has another name is not queried.
func TestTLSResumedAsAnother(t *testing.T) {
	s := dnstest.NewTLSServer(t, world)
	f := newForward(t, trusting(s), overTLS(s))
	mustAnswer(t, f)
	s.CloseConnections()
	other := overTLS(s)
	other.Name = "resolver.example"
	f.SetRoutes([]Route{{Servers: []nameserver.Server{other}}})
	if _, _, err := askFor(t, f, "www.example.", dns.TypeA); !errors.Is(err, ErrNoResponse) {
		t.Errorf("got %v", err)
	}
}

// TestTLSUnparsed: simple responses over TLS are not parsed, and reach the clients of both paths.
func TestTLSUnparsed(t *testing.T) {
	secure := dnstest.NewTLSServer(t, world)
	s := newLaneServer(t, trusting(secure), overTLS(secure))
	for i := range 20 {
		if got := s.exchange(t, fmt.Sprintf("n%d.example.", i), dns.TypeA); got != "NXDOMAIN" {
			t.Errorf("n%d: %s", i, got)
		}
	}
	if replies, parsed := s.replies.Load(), s.parsed.Load(); replies != 20 || parsed != 0 {
		t.Errorf("got %d replies, %d of them parsed", replies, parsed)
	}
	mustAnswer(t, s.f)
}
