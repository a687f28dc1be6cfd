package forward

import (
	"fmt"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/test/dnstest"
)

// TestNumbersAddUp: a server never has more failures than queries. For a server with the wrong
// certificate, status said "21 of 19 failed".
func TestNumbersAddUp(t *testing.T) {
	t.Parallel()
	secure, closed := dnstest.NewTLSServer(t, world), dnstest.NewServer(t, world)
	silent := dnstest.NewServer(t, world)
	silent.SetFaults(dnstest.Faults{Drop: true})
	gone := closed.Addr()
	closed.Close()
	late := closesLate(t, 250*time.Millisecond)
	for _, row := range []struct {
		name   string
		server nameserver.Server
	}{
		{"another name in the certificate", nameserver.Server{Addr: secure.Addr(), TLS: true, Name: "resolver.example"}},
		{"silent", nameserver.Server{Addr: silent.Addr()}},
		{"silent, TLS", nameserver.Server{Addr: silent.Addr(), TLS: true}},
		{"closed port", nameserver.Server{Addr: gone}},
		{"closes the connection late", nameserver.Server{Addr: late, TLS: true}},
		{"closed port, TLS", nameserver.Server{Addr: gone, TLS: true}},
	} {
		t.Run(row.name, func(t *testing.T) {
			f := newForward(t, func(c *Config) {
				c.RootCAs = secure.CertPool()
				c.Deadline, c.TryTimeout = 400*time.Millisecond, 50*time.Millisecond
			}, row.server)
			for i := range 4 {
				var clients sync.WaitGroup
				for j := range 5 {
					clients.Go(func() { _, _, _ = askFor(t, f, fmt.Sprintf("n%d.m%d.example.", i, j), dns.TypeA) })
				}
				clients.Wait()
			}
			f.Close()
			got := stateOf(f, row.server)
			if got.Failures > got.Queries || got.Failures == 0 {
				t.Errorf("%d of %d failed", got.Failures, got.Queries)
			}
			if got.Failed > got.Asked || got.Failed == 0 || got.Asked > got.Queries {
				t.Errorf("%d of %d failed in the route, of %d", got.Failed, got.Asked, got.Queries)
			}
		})
	}
}

// TestNumbersOfRoutes: a server in two routes has separate counters in each. They survive a change
// of the routes.
func TestNumbersOfRoutes(t *testing.T) {
	s := dnstest.NewServer(t, world)
	s.SetFaultsFor("refused.corp.example.", dnstest.Faults{Rcode: dns.RcodeRefused})
	f := newForward(t, nil, nameserver.Server{Addr: s.Addr()})
	routes := func(source string) []Route {
		servers := []nameserver.Server{{Addr: s.Addr()}}
		return []Route{{Domain: dnsname.MustParse("corp.example."), Servers: servers, Source: source}, {Domain: dnsname.Root(), Servers: servers, Source: source}}
	}
	f.SetRoutes(routes("a file"))
	ask := func(names ...string) {
		for _, name := range names {
			_, _, _ = askFor(t, f, name, dns.TypeA)
		}
	}
	ask("a.corp.example.", "b.corp.example.", "a.example.", "b.example.", "c.example.")
	f.SetRoutes(routes("another file"))
	ask("d.example.", "refused.corp.example.")
	asked, failed, all := map[string]uint64{}, map[string]uint64{}, uint64(0)
	for _, r := range f.Status() {
		for _, server := range r.Servers {
			asked[r.Domain.String()], failed[r.Domain.String()], all = server.Asked, server.Failed, server.Queries
		}
	}
	if asked["."] != 4 || failed["."] != 0 || asked["corp.example."] < 3 || failed["corp.example."] == 0 || failed["corp.example."] > asked["corp.example."]-2 {
		t.Errorf("got queries %v, failures %v", asked, failed)
	}
	if sum := asked["."] + asked["corp.example."]; sum > all {
		t.Errorf("the routes count %d queries, the server only %d", sum, all)
	}
}

// closesLate returns the address of a server that accepts connections and closes each after the
// given time without sending anything.
func closesLate(t *testing.T, after time.Duration) netip.AddrPort {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			time.AfterFunc(after, func() { conn.Close() })
		}
	}()
	return listener.Addr().(*net.TCPAddr).AddrPort()
}
