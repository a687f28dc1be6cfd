package faultplan

import (
	"strings"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/test/dnstest"
)

// largeText is the upstream answer for each name, of more than 800 bytes.
var largeText = strings.TrimSpace(strings.Repeat(`"`+strings.Repeat("x", 200)+`" `, 4))

// lossy is a path that loses large responses over UDP, as firewalls do that drop fragments or
// filter by size.
var lossy = dnstest.Faults{MaxUDP: 600}

// large queries new names with large answers.
func large() []dnstest.Ask {
	return []dnstest.Ask{{Name: "large%d.example.", Type: dns.TypeTXT, Want: largeText}}
}

// largeLost are the rows in which large answers get lost over UDP.
func largeLost() []Row {
	records := everyName + "\n*. 300 IN TXT " + largeText
	return []Row{
		{
			Name: "A loses answers of more than 600 octets", Promise: "100 %, from B or over TCP",
			records: records, play: loseLarge(func(a, _ *dnstest.Server, f dnstest.Faults) { a.SetFaults(f) }),
		},
		{
			Name: "A and B lose answers of more than 600 octets", Promise: "100 %, over TCP",
			records: records, play: loseLarge(func(a, b *dnstest.Server, f dnstest.Faults) { a.SetFaults(f); b.SetFaults(f) }),
		},
		{
			Name: "A and B lose answers of more than 600 octets, their TCP is closed", Promise: "small answers 100 %, SERVFAIL for large ones",
			records: records, play: loseLargeWithoutTCP, want: wantSilentFailed,
		},
	}
}

// loseLarge simulates the loss of large answers while clients query them.
func loseLarge(set func(a, b *dnstest.Server, f dnstest.Faults)) func(*stage) error {
	return func(s *stage) error {
		return s.throughAsking(large(),
			func(a, b *dnstest.Server) { set(a, b, lossy) }, func(a, b *dnstest.Server) { set(a, b, dnstest.Faults{}) })
	}
}

// loseLargeWithoutTCP simulates a path that passes only small answers, and no TCP.
func loseLargeWithoutTCP(s *stage) error {
	s.faults(lossy)
	for _, server := range s.up {
		server.RefuseTCP()
	}
	asks := large()
	for range 4 {
		asks = append(asks, distinct("n")...)
	}
	return s.besideUnanswered(asks, func(name string) bool { return strings.HasPrefix(name, "large") })
}
