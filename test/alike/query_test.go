package alike

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/miekg/dns"
)

// query is a client's query, sent to all three servers.
type query struct {
	msg  *dns.Msg
	tcp  bool
	wire []byte // with ID 0
}

// rareTypes are occasionally queried for every name, whether it has them or not.
var rareTypes = []uint16{
	dns.TypeA, dns.TypeAAAA, dns.TypeTXT, dns.TypeMX, dns.TypeSRV, dns.TypeNS, dns.TypeSOA, dns.TypeCNAME, dns.TypePTR, dns.TypeCAA, dns.TypeHTTPS,
	dns.TypeNAPTR, dns.TypeANY, dns.TypeDS, dns.TypeDNSKEY, dns.TypeRRSIG, dns.TypeHINFO, dns.TypeNSEC, dns.TypeSPF, 65280, 1234, 0,
}

// refusedTypes are those that resolvers do not forward, or only some of them do.
var refusedTypes = []uint16{dns.TypeAXFR, dns.TypeIXFR, dns.TypeMAILB, dns.TypeMAILA, dns.TypeOPT, dns.TypeTSIG, dns.TypeTKEY}

// queries returns n queries generated from a seed. Most names are repeated.
func queries(seed uint64, n int) []query {
	r := rand.New(rand.NewPCG(seed, 0))
	all, known := make([]query, 0, n), targets()
	for len(all) < n {
		all = append(all, newQuery(r, known))
	}
	return all
}

func newQuery(r *rand.Rand, known []target) query {
	of := known[r.IntN(len(known))]
	switch r.IntN(10) { // names that are unique or nearly so
	case 0:
		of = target{fmt.Sprintf("n%d.absent.example.", r.IntN(600)), []uint16{dns.TypeA, dns.TypeAAAA}}
	case 1:
		of = target{fmt.Sprintf("n%d.wild.example.", r.IntN(600)), []uint16{dns.TypeA, dns.TypeTXT}}
	case 2:
		of = target{fmt.Sprintf("n%d.moved.example.", r.IntN(100)), []uint16{dns.TypeA, dns.TypeTXT}}
	}
	qtype := of.types[r.IntN(len(of.types))]
	switch r.IntN(50) {
	case 0, 1, 2, 3, 4:
		qtype = rareTypes[r.IntN(len(rareTypes))]
	case 5:
		qtype = refusedTypes[r.IntN(len(refusedTypes))]
	}
	q := query{tcp: r.IntN(30) == 0, msg: new(dns.Msg)}
	m := q.msg
	m.Question = []dns.Question{{Name: inSomeCase(r, of.name), Qtype: qtype, Qclass: dns.ClassINET}}
	if r.IntN(100) == 0 {
		m.Question[0].Qclass = []uint16{dns.ClassCHAOS, dns.ClassHESIOD, dns.ClassANY, dns.ClassNONE, 0}[r.IntN(5)]
	}
	m.RecursionDesired = r.IntN(25) != 0
	m.CheckingDisabled, m.AuthenticatedData = r.IntN(12) == 0, r.IntN(8) == 0
	m.Zero, m.Authoritative, m.Truncated = r.IntN(100) == 0, r.IntN(100) == 0, r.IntN(100) == 0
	m.RecursionAvailable = r.IntN(100) == 0
	if r.IntN(3) != 0 {
		m.Extra = []dns.RR{opt(r)}
	}
	wire, err := m.Pack()
	if err != nil {
		panic(fmt.Sprintf("packing a query: %v", err)) // the names are part of the test
	}
	q.wire = wire
	return q
}

// inSomeCase randomizes the case of letters, like clients that hide bits there
// (draft-vixie-dnsext-dns0x20).
func inSomeCase(r *rand.Rand, name string) string {
	if r.IntN(3) == 0 {
		return name
	}
	return strings.Map(func(c rune) rune {
		if r.IntN(2) == 0 && ('a' <= c && c <= 'z') {
			return c - 'a' + 'A'
		}
		return c
	}, name)
}

// opt returns a client's OPT record (RFC 6891).
func opt(r *rand.Rand) *dns.OPT {
	o := &dns.OPT{Hdr: dns.RR_Header{Name: ".", Rrtype: dns.TypeOPT}}
	o.SetUDPSize([]uint16{0, 512, 1232, 4096, 1232, 65535}[r.IntN(6)])
	if r.IntN(4) == 0 {
		o.SetDo()
	}
	if r.IntN(100) == 0 {
		o.SetVersion(1)
	}
	switch r.IntN(12) {
	case 0:
		o.Option = append(o.Option, &dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: "0123456789abcdef"})
	case 1:
		o.Option = append(o.Option, &dns.EDNS0_NSID{Code: dns.EDNS0NSID})
	case 2:
		o.Option = append(o.Option, &dns.EDNS0_PADDING{Padding: make([]byte, r.IntN(64))})
	case 3:
		o.Option = append(o.Option, &dns.EDNS0_LOCAL{Code: 65001, Data: []byte("anything")})
	case 4:
		o.Option = append(o.Option, &dns.EDNS0_SUBNET{Code: dns.EDNS0SUBNET, Family: 1, SourceNetmask: 24, Address: []byte{203, 1, 113, 0}})
	case 5:
		o.Option = append(o.Option, &dns.EDNS0_TCP_KEEPALIVE{Code: dns.EDNS0TCPKEEPALIVE})
	}
	return o
}

// limit returns the maximum size of the answer in bytes. No server sends more than 1232 over UDP.
func (q query) limit() int {
	const largest = 1232
	size := dns.MinMsgSize
	if o := q.msg.IsEdns0(); o != nil {
		size = min(max(size, int(o.UDPSize())), largest)
	}
	if q.tcp {
		size = dns.MaxMsgSize
	}
	return size
}

// String describes the query in one line.
func (q query) String() string {
	m := q.msg
	question := m.Question[0]
	words := []string{question.Name, dns.Class(question.Qclass).String(), dns.Type(question.Qtype).String()}
	for _, flag := range []struct {
		on   bool
		word string
	}{
		{q.tcp, "tcp"},
		{!m.RecursionDesired, "no-rd"},
		{m.CheckingDisabled, "cd"},
		{m.AuthenticatedData, "ad"},
		{m.Zero, "z"},
		{m.Authoritative, "aa"},
		{m.Truncated, "tc"},
		{m.RecursionAvailable, "ra"},
	} {
		if flag.on {
			words = append(words, flag.word)
		}
	}
	if o := m.IsEdns0(); o != nil {
		words = append(words, fmt.Sprintf("edns%d=%d", o.Version(), o.UDPSize()))
		if o.Do() {
			words = append(words, "do")
		}
		for _, option := range o.Option {
			words = append(words, fmt.Sprintf("option=%d", option.Option()))
		}
	}
	return strings.Join(words, " ")
}
