package dnstest_test

import (
	"testing"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dnstest"
)

func TestServerAnswers(t *testing.T) {
	server := dnstest.NewServer(t, `
		www.example.com. 300 IN A 192.0.2.80
	`)
	got := dnstest.Exchange(t, server.Addr(), "www.example.com", dns.TypeA)
	if len(got.Answer) != 1 || got.Answer[0].(*dns.A).A.String() != "192.0.2.80" {
		t.Fatalf("got\n%s", got)
	}
	got = dnstest.ExchangeTCP(t, server.Addr(), "nx.example.com", dns.TypeA)
	if got.Rcode != dns.RcodeNameError || len(got.Ns) != 1 {
		t.Fatalf("got\n%s", got)
	}
	if n := server.Queries(); n != 2 {
		t.Errorf("%d queries counted", n)
	}
}
