package forward

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/exchange"
	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// TestSourceAndInterface: queries leave from the configured source address and interface, over UDP
// and TCP.
func TestSourceAndInterface(t *testing.T) {
	for _, faults := range []dnstest.Faults{{}, {Truncate: true}} {
		servers, addresses := startServers(t, 1)
		servers[0].SetFaults(faults)
		to := addresses[0]
		to.Source, to.Interface = netip.MustParseAddr("127.0.0.77"), "lo"
		if err := exchange.MayBind(to); errors.Is(err, unix.EPERM) {
			lab.Skip(t, "needs Linux 5.7, or CAP_NET_RAW: %v", err)
		}
		mustAnswer(t, newForward(t, patient, to))
		for _, q := range servers[0].Received() {
			if q.Client.Addr() != to.Source {
				t.Errorf("got a query from %v over %s", q.Client, q.Network)
			}
		}
	}
}

// TestInterfaceThatDoesNotExist: a missing interface may appear later. Until then, its server
// fails.
func TestInterfaceThatDoesNotExist(t *testing.T) {
	_, addresses := startServers(t, 1)
	to := addresses[0]
	to.Interface = "no-such-if"
	if err := exchange.MayBind(to); err != nil {
		t.Error(err)
	}
	_, _, err := askFor(t, newForward(t, nil, to), "www.example.", dns.TypeA)
	if !errors.Is(err, ErrNoResponse) || !strings.Contains(err.Error(), "no such device") {
		t.Errorf("got error %v", err)
	}
}

// TestLocalRoute: names of a local route do not exist, and no server is queried.
func TestLocalRoute(t *testing.T) {
	servers, addresses := startServers(t, 1)
	f := newForward(t, func(c *Config) {
		c.Routes = append(c.Routes, Route{Domain: dnsname.MustParse("example"), Local: true},
			Route{Domain: dnsname.MustParse("www.example"), Servers: c.Routes[0].Servers})
	}, addresses...)
	for _, name := range []string{"example.", "a.example."} {
		if m, _, err := askFor(t, f, name, dns.TypeTXT); err != nil || m.Rcode != dns.RcodeNameError || servers[0].Queries() > 0 {
			t.Errorf("%s: %v, %v; %d queries", name, m, err, servers[0].Queries())
		}
	}
	mustAnswer(t, f) // a longer route
}
