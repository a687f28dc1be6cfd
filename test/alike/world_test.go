package alike

import (
	"fmt"
	"strings"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/test/dnstest"
)

// The nameserver behind all three servers has everything that resolvers encounter. No TTL expires
// within the test, except for 0.
const records = `
. 900 IN SOA ns.example. hostmaster.example. 1 3600 600 86400 600
. 900 IN NS ns.example.
example. 900 IN SOA ns.example. hostmaster.example. 7 3600 600 86400 700
example. 900 IN NS ns.example.
example. 900 IN NS ns2.example.
example. 900 IN MX 10 mail.example.
example. 900 IN CAA 0 issue "ca.example"
ns.example. 900 IN A 203.1.113.53
ns2.example. 900 IN A 203.1.113.54
mail.example. 900 IN A 203.1.113.25
a.example. 800 IN A 203.1.113.1
both.example. 800 IN A 203.1.113.2
both.example. 810 IN AAAA 2001:500::2
both.example. 820 IN TXT "both" "of two texts"
both.example. 820 IN HINFO "cpu" "os"
MiXeD.example. 800 IN A 203.1.113.3
plain. 800 IN A 203.1.113.4
never.example. 0 IN A 203.1.113.5
never.example. 0 IN TXT "not to be remembered"
alias-of-never.example. 800 IN CNAME never.example.
long.example. 604800 IN A 203.1.113.6
longest.example. 2147483647 IN A 203.1.113.7
unlike.example. 700 IN A 203.1.113.8
alias-of-unlike.example. 900 IN CNAME unlike.example.
_sip._udp.example. 900 IN SRV 1 2 5060 Both.Example.
_sip._udp.example. 900 IN SRV 2 2 5061 a.example.
1.113.1.203.in-addr.arpa. 900 IN PTR a.example.
naptr.example. 900 IN NAPTR 10 20 "s" "SIP+D2U" "" _sip._udp.example.
svc.example. 900 IN HTTPS 1 . alpn="h2,h3" ipv4hint=203.1.113.9
svc.example. 900 IN SVCB 1 both.example. port=853
tlsa.example. 900 IN TLSA 3 1 1 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
sshfp.example. 900 IN SSHFP 1 1 0123456789abcdef0123456789abcdef01234567
unknown.example. 900 IN TYPE65280 \# 4 00ff2041
unknown.example. 900 IN TYPE65280 \# 0
signed.example. 900 IN A 203.1.113.10
signed.example. 900 IN RRSIG A 8 2 900 20380101000000 20200101000000 1 example. c2lnbmF0dXJl
signed.example. 900 IN DS 1 8 2 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
c1.example. 900 IN CNAME a.example.
c2.example. 890 IN CNAME c1.example.
c3.example. 880 IN CNAME C2.Example.
c4.example. 870 IN CNAME c3.example.
c5.example. 860 IN CNAME c4.example.
c6.example. 850 IN CNAME c5.example.
c7.example. 840 IN CNAME c6.example.
c8.example. 830 IN CNAME c7.example.
dead.example. 900 IN CNAME nowhere.example.
dead2.example. 900 IN CNAME dead.example.
alias-of-big.example. 900 IN CNAME big.example.
alias-of-wild.example. 900 IN CNAME x.wild.example.
alias-of-many.example. 900 IN CNAME many.example.
alias-of-mixed.example. 900 IN CNAME mIxEd.eXample.
loop1.example. 900 IN CNAME loop2.example.
loop2.example. 900 IN CNAME loop1.example.
self.example. 900 IN CNAME self.example.
moved.example. 900 IN DNAME wild.example.
*.wild.example. 900 IN A 203.1.113.11
*.wild.example. 900 IN TXT "wild"
*.tame.example. 900 IN CNAME both.example.
deep.er.than.example. 900 IN A 203.1.113.12
a\000b.odd.example. 900 IN A 203.1.113.13
a\.b.odd.example. 900 IN A 203.1.113.14
a\032b.odd.example. 900 IN A 203.1.113.15
\255\200.odd.example. 900 IN A 203.1.113.16
\".odd.example. 900 IN A 203.1.113.17
\(\)\;\@.odd.example. 900 IN A 203.1.113.18
a_b.odd.example. 900 IN A 203.1.113.19
-.odd.example. 900 IN A 203.1.113.20
alias.odd.example. 900 IN CNAME a\.b.odd.example.
`

// site starts the nameserver and adds behavior that records cannot express.
func site(t dnstest.TB) *dnstest.Server {
	s := dnstest.NewServer(t, records+generated())
	// like a server that adds authority and additional records
	s.SetFaultsFor("told.example.", dnstest.Faults{
		ExtraRR: "told.example. 900 IN MX 10 mail.example.", ExtraAuthority: "example. 900 IN NS ns.example.", ExtraAdditional: "mail.example. 900 IN A 203.1.113.25\nns.example. 900 IN A 203.1.113.53",
	})
	s.SetFaultsFor("bare.example.", dnstest.Faults{NoSOA: true})
	s.SetFaultsFor("absent.bare.example.", dnstest.Faults{NoSOA: true})
	return s
}

var (
	label63 = strings.Repeat("l", 63)
	longest = strings.Repeat(label63+".", 3) + strings.Repeat("m", 53) + ".example." // 255 bytes
	ladder  = strings.Repeat("a.", 123) + "example."                                 // also 255 bytes
)

// generated returns the records that are large, long or numerous.
func generated() string {
	var b strings.Builder
	texts := func(name string, n int) {
		for i := range n {
			fmt.Fprintf(&b, "%s 900 IN TXT \"%03d%s\"\n", name, i, strings.Repeat("x", 200))
		}
	}
	texts("big1.example.", 3)  // more than 512 bytes
	texts("big.example.", 8)   // more than 1232
	texts("big2.example.", 30) // more than 4096
	texts("huge.example.", 250)
	for i := range 25 { // 512 bytes are not enough, but 1232 are
		fmt.Fprintf(&b, "many.example. 900 IN A 203.1.114.%d\nmany.example. 900 IN AAAA 2001:500::%x\n", i, i)
	}
	fmt.Fprintf(&b, "%s 900 IN A 203.1.113.21\n%s 900 IN TXT \"long\"\n%s 900 IN A 203.1.113.22\n%s.example. 900 IN CNAME %s\n",
		longest, longest, ladder, label63, longest)
	fmt.Fprintf(&b, "told.example. 900 IN TXT \"told\"\nbare.example. 900 IN TXT \"bare\"\n")
	return b.String()
}

// target is a name, and the types for which it is queried more often.
type target struct {
	name  string
	types []uint16
}

// targets returns the queried names, which are equally frequent.
func targets() []target {
	const a, aaaa, txt, mx, srv, any = dns.TypeA, dns.TypeAAAA, dns.TypeTXT, dns.TypeMX, dns.TypeSRV, dns.TypeANY
	all := []target{
		{".", []uint16{dns.TypeNS, dns.TypeSOA, a}},
		{"example.", []uint16{dns.TypeSOA, dns.TypeNS, mx, dns.TypeCAA, a}},
		{"_sip._udp.example.", []uint16{srv}},
		{"1.113.1.203.in-addr.arpa.", []uint16{dns.TypePTR}},
		{"9.113.1.203.in-addr.arpa.", []uint16{dns.TypePTR}},
		{"naptr.example.", []uint16{dns.TypeNAPTR}},
		{"svc.example.", []uint16{dns.TypeHTTPS, dns.TypeSVCB}},
		{"tlsa.example.", []uint16{dns.TypeTLSA}},
		{"sshfp.example.", []uint16{dns.TypeSSHFP}},
		{"unknown.example.", []uint16{65280}},
		{"signed.example.", []uint16{a, dns.TypeRRSIG, dns.TypeDS}},
		{"both.example.", []uint16{a, aaaa, txt, any, dns.TypeHINFO}},
		{"many.example.", []uint16{a, aaaa, any}},
		{"moved.example.", []uint16{dns.TypeDNAME}},
		{"told.example.", []uint16{mx, txt}},
		{"bare.example.", []uint16{txt, a}},
		{"absent.bare.example.", []uint16{a}},
		{"big1.example.", []uint16{txt}},
		{"big.example.", []uint16{txt}},
		{"big2.example.", []uint16{txt}},
		{"huge.example.", []uint16{txt}},
		{"alias-of-big.example.", []uint16{txt}},
		{"alias-of-many.example.", []uint16{a, aaaa}},
		{"never.example.", []uint16{a, txt}},
		{longest, []uint16{a, txt}},
		{"c3.example.", []uint16{a, aaaa, dns.TypeCNAME}},
	}
	for _, name := range []string{
		"a.example.", "mixed.example.", "plain.", "absent.", "alias-of-never.example.", "long.example.", "longest.example.", "unlike.example.",
		"alias-of-unlike.example.", "c1.example.", "c2.example.", "c5.example.", "c8.example.", "dead.example.", "dead2.example.",
		"alias-of-wild.example.", "alias-of-mixed.example.", "loop1.example.", "self.example.", "x.moved.example.", "y.z.moved.example.",
		"*.wild.example.", "x.tame.example.", "er.than.example.", "deep.er.than.example.", "x.deep.er.than.example.", "wild.example.",
		`a\000b.odd.example.`, `a\.b.odd.example.`, `a\ b.odd.example.`, `\255\200.odd.example.`, `\".odd.example.`, `\(\)\;\@.odd.example.`,
		"a_b.odd.example.", "-.odd.example.", "alias.odd.example.", ladder, label63 + ".example.", "l" + label63[1:] + ".nowhere.example.", "example.org.",
	} {
		all = append(all, target{name, []uint16{a, aaaa}})
	}
	return all
}
