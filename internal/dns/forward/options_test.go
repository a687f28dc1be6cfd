package forward

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/test/dnstest"
)

// TestIgnore: after an ignored response the next server is queried, and a better response is still
// awaited.
func TestIgnore(t *testing.T) {
	servers, addresses := startServers(t, 2)
	f := newForward(t, func(c *Config) {
		patient(c)
		first := true
		c.Ignore = func(m *dns.Msg) error {
			if first = !first; !first {
				return errors.New("not this one")
			}
			return nil
		}
	}, addresses...)
	if from := mustAnswer(t, f); from != addresses[1] {
		t.Errorf("got an answer from %v", from)
	}
	if servers[0].Queries() == 0 {
		t.Error("the first server got no query")
	}
}

// TestIgnoreSimple: the simplest response is also ignored, over any transport.
func TestIgnoreSimple(t *testing.T) {
	p := newPeer(t, func(query []byte, _ bool) [][]byte { return [][]byte{answerTo(query, forgedAddr)} })
	secure := dnstest.NewTLSServer(t, world)
	for _, to := range []nameserver.Server{p.address, overTLS(secure)} {
		f := newForward(t, func(c *Config) {
			trusting(secure)(c)
			c.Ignore = func(*dns.Msg) error { return errors.New("not this one") }
		}, to)
		if m, _, err := askFor(t, f, "www.example.", dns.TypeA); !errors.Is(err, ErrNoResponse) || !strings.Contains(err.Error(), "not this one") {
			t.Errorf("%v: got %v, %v", to, m, err)
		}
	}
}

// TestSetAll: if the first server is slow, the second one, queried at the same time, answers.
func TestSetAll(t *testing.T) {
	servers, addresses := startServers(t, 2)
	servers[0].SetFaults(dnstest.Faults{Delay: 2 * time.Second})
	f := newForward(t, patient, addresses...)
	f.SetAll(true)
	if from := mustAnswer(t, f); from != addresses[1] {
		t.Errorf("got an answer from %v", from)
	}
}

// TestPlainRoute: names of one label have their own servers, unless the name has a route of its
// own.
func TestPlainRoute(t *testing.T) {
	f := newForward(t, nil)
	server := func(text string) []nameserver.Server { return []nameserver.Server{nameserver.MustParse(text)} }
	f.SetRoutes([]Route{
		{Domain: dnsname.Root(), Servers: server("192.0.2.1")},
		{Domain: dnsname.Root(), Plain: true, Servers: server("192.0.2.2")},
		{Domain: dnsname.MustParse("own"), Servers: server("192.0.2.3")},
	})
	for name, want := range map[string]string{"plain": "192.0.2.2", "a.plain": "192.0.2.1", "own": "192.0.2.3", "a.own": "192.0.2.3", ".": "192.0.2.1"} {
		if route, ok := f.Match(dnsname.MustParse(name)); !ok || !slices.Equal(route.Servers, server(want)) {
			t.Errorf("%s: got servers %v", name, route.Servers)
		}
	}
}
