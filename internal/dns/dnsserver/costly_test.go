package dnsserver

import (
	"context"
	"net/netip"
	"testing"

	"github.com/miekg/dns"
)

// TestCostly: a client that exceeded its share of upstream traffic gets SERVFAIL and appears in
// Stats. Other clients are answered.
func TestCostly(t *testing.T) {
	for _, proto := range []Proto{UDP, TCP} {
		t.Run(string(proto), func(t *testing.T) {
			s, addr := start(t, Config{Handler: HandlerFunc(func(context.Context, *Query) (*dns.Msg, error) { return new(dns.Msg), nil })})
			hostile, other := from(t, "127.0.0.2", proto, addr), from(t, "127.0.0.3", proto, addr)
			question := packed(t, query("www.test.", dns.TypeA, edns(1232)))
			for range 1000 {
				s.Charge(netip.MustParseAddr("127.0.0.3"), 1232) // messages of the usual size are free
			}
			s.Charge(netip.MustParseAddr("127.0.0.2"), 100*spendRate)
			hostile.send(question)
			r := hostile.receive()
			if ede := explanationOf(r); r.Rcode != dns.RcodeServerFailure || ede == nil || ede.ExtraText == "" {
				t.Errorf("the costly client got %v", r)
			}
			other.send(question)
			if r := other.receive(); r.Rcode != dns.RcodeSuccess {
				t.Errorf("the other client got %v", r)
			}
			if stats := s.Stats(); stats.Costly != 1 || stats.Crowder.String() != "127.0.0.2" {
				t.Errorf("got Costly %d, Crowder %v", stats.Costly, stats.Crowder)
			}
		})
	}
}
