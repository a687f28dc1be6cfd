package dnsserver

import (
	"context"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/miekg/dns"
)

// TestOwnQueries: our own queries that come back are answered with NXDOMAIN, over both transports
// and from any client. They are not counted, reported or limited. Queries of clients are, at the
// same time.
func TestOwnQueries(t *testing.T) {
	const rate = 2
	var told atomic.Int32
	handler := HandlerFunc(func(context.Context, *Query) (*dns.Msg, error) {
		t.Error("the Handler was called")
		return nil, nil
	})
	server := New(Config{
		Handler: handler, Trouble: func(Seen) { told.Add(1) },
		Access: &Access{Clients: NewNetworks(nil), Host: NewNetworks(nil), Rate: rate},
	})
	defer server.Shutdown(context.Background())
	server.SetWatch(func(Seen) { told.Add(1) }, 0)
	server.SetOwn(func(name []byte) bool { return string(name) == "\x04prob\x00" })
	if err := server.Listen([]netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}); err != nil {
		t.Fatal(err)
	}
	at := server.Listeners()[0].Addr.String()
	ask := func(network, qname string) int {
		client := dns.Client{Net: network}
		m, _, err := client.Exchange(new(dns.Msg).SetQuestion(qname, dns.TypeTXT), at)
		if err != nil {
			t.Fatalf("%s over %s: %v", qname, network, err)
		}
		return m.Rcode
	}
	for _, network := range []string{"udp", "tcp"} {
		for range 3 * rate {
			if rcode := ask(network, "prob."); rcode != dns.RcodeNameError {
				t.Errorf("over %s: got %s", network, dns.RcodeToString[rcode])
			}
		}
	}
	got := server.Stats()
	got.TCPAccepted, got.TCPOpen = 0, 0 // connections are accepted before anything is asked
	if got != (Stats{}) || told.Load() > 0 {
		t.Errorf("got stats %+v, and %d calls of Watch and Trouble", got, told.Load())
	}
	for _, one := range server.Traffic() {
		if one.Types != [len(TypeNames)]uint64{} || one.Rcodes != [len(RcodeNames)]uint64{} {
			t.Errorf("got traffic %+v", one)
		}
	}
	if rcode := ask("udp", "another."); rcode != dns.RcodeRefused || server.Stats().UDPQueries != 1 {
		t.Errorf("a client's query: got %s, stats %+v", dns.RcodeToString[rcode], server.Stats())
	}
	server.SetOwn(nil)
	if rcode := ask("tcp", strings.ToUpper("prob.")); rcode != dns.RcodeRefused {
		t.Errorf("after the last of our queries: got %s", dns.RcodeToString[rcode])
	}
}
