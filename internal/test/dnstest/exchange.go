package dnstest

import (
	"net/netip"
	"time"

	"github.com/miekg/dns"
)

// patience is the timeout of Exchange, longer than anything that is tested.
const patience = 10 * time.Second

// An Option changes the query of Exchange. Any function of this type will do.
type Option func(query *dns.Msg)

// EDNS adds an OPT record that allows size bytes over UDP.
func EDNS(size uint16) Option { return func(query *dns.Msg) { query.SetEdns0(size, false) } }

// DO adds an OPT record with the DO bit that allows 1232 bytes.
func DO() Option { return func(query *dns.Msg) { query.SetEdns0(payload, true) } }

// Exchange sends a query with RD to server over UDP and returns the response. It fails the test if
// no response arrives within 10 s, or if the response does not match the query. It never retries,
// over TCP or otherwise.
func Exchange(t TB, server netip.AddrPort, name string, qtype uint16, options ...Option) *dns.Msg {
	t.Helper()
	return exchange(t, "udp", server, name, qtype, options)
}

// ExchangeTCP is Exchange over TCP.
func ExchangeTCP(t TB, server netip.AddrPort, name string, qtype uint16, options ...Option) *dns.Msg {
	t.Helper()
	return exchange(t, "tcp", server, name, qtype, options)
}

func exchange(t TB, network string, server netip.AddrPort, name string, qtype uint16, options []Option) *dns.Msg {
	t.Helper()
	query := new(dns.Msg).SetQuestion(dns.Fqdn(name), qtype)
	for _, option := range options {
		option(query)
	}
	asked := query.Question[0]
	asked.Name = receivedName(asked.Name)
	client := dns.Client{Net: network, Timeout: patience}
	response, _, err := client.Exchange(query, server.String())
	switch {
	case err != nil:
		t.Fatalf("asking %s for %s %s over %s: %v", server, name, dns.Type(qtype), network, err)
	case !response.Response || response.Id != query.Id || len(response.Question) != 1 || response.Question[0] != asked:
		t.Fatalf("asking %s for %s %s over %s: the response does not match the query:\n%s", server, name, dns.Type(qtype), network, response)
	}
	return response
}
