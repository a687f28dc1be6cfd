package edns

import (
	"crypto"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"
)

// zoneText is a zone before it is signed. It has records of each type that clients may query, with
// letters of any case, and with names in the data that must stay unchanged.
const zoneText = `
signed.test. 300 IN SOA Ns.Signed.test. hostmaster.signed.test. 1 3600 600 86400 300
signed.test. 300 IN NS Ns.Signed.test.
signed.test. 300 IN NSEC3PARAM 1 0 0 -
signed.test. 300 IN CAA 0 issue "ca.example"
signed.test. 300 IN MX 10 Mail.Signed.Test.
www.signed.test. 300 IN A 192.0.2.80
www.signed.test. 300 IN A 192.0.2.81
www.signed.test. 300 IN AAAA 2001:db8::80
www.signed.test. 300 IN NSEC Xn--A.Signed.Test. A AAAA RRSIG NSEC TYPE65280
alias.signed.test. 300 IN CNAME WWW.signed.test.
child.signed.test. 300 IN DS 12345 13 2 0123456789ABCDEF0123456789ABCDEF0123456789ABCDEF0123456789ABCDEF
child.signed.test. 300 IN CDS 12345 13 2 0123456789ABCDEF0123456789ABCDEF0123456789ABCDEF0123456789ABCDEF
*.wild.signed.test. 300 IN A 192.0.2.90
_443._tcp.www.signed.test. 300 IN TLSA 3 1 1 0123456789ABCDEF0123456789ABCDEF0123456789ABCDEF0123456789ABCDEF
svc.signed.test. 300 IN HTTPS 1 . alpn="h2,h3" ipv4hint=192.0.2.80 key65000="\000\255"
txt.signed.test. 300 IN TXT "one" "\000\001\254\255" ""
unknown.signed.test. 300 IN TYPE65280 \# 5 00ff20c00c
unknown.signed.test. 300 IN TYPE65281 \# 0
2t7b4g4vsa5smi47k61mv5bv1a22bojr.signed.test. 300 IN NSEC3 1 1 0 - 2VPTU5TIMAMQTTGL4LUU9KG21E0AOR3S A RRSIG
`

// A signedZone is zoneText signed with its own key.
type signedZone struct {
	key  *dns.DNSKEY
	text string // all records with their signatures
}

func newSignedZone(t testing.TB) signedZone {
	t.Helper()
	var text strings.Builder
	text.WriteString(zoneText)
	for i := range 30 { // more than 1232 bytes with a signature
		fmt.Fprintf(&text, "large.signed.test. 300 IN TXT \"%02d%s\"\n", i, strings.Repeat("x", 60))
	}
	z := signedZone{key: &dns.DNSKEY{
		Hdr:   dns.RR_Header{Name: "signed.test.", Rrtype: dns.TypeDNSKEY, Class: dns.ClassINET, Ttl: 300},
		Flags: 257, Protocol: 3, Algorithm: dns.ECDSAP256SHA256,
	}}
	private, err := z.key.Generate(256)
	if err != nil {
		t.Fatal(err)
	}
	text.WriteString(z.key.String() + "\n")
	parser := dns.NewZoneParser(strings.NewReader(text.String()), ".", "")
	var sets [][]dns.RR
	for rr, ok := parser.Next(); ok; rr, ok = parser.Next() {
		i := slices.IndexFunc(sets, func(set []dns.RR) bool { return dns.IsRRset(append(slices.Clip(set), rr)) })
		if i < 0 {
			i, sets = len(sets), append(sets, nil)
		}
		sets[i] = append(sets[i], rr)
	}
	if err := parser.Err(); err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, set := range sets {
		signature := &dns.RRSIG{
			Hdr:       dns.RR_Header{Ttl: set[0].Header().Ttl},
			Algorithm: z.key.Algorithm, SignerName: "signed.test.", KeyTag: z.key.KeyTag(), Inception: 1700000000, Expiration: 2100000000,
		}
		if err := signature.Sign(private.(crypto.Signer), set); err != nil {
			t.Fatal(err)
		}
		for _, rr := range append(set, signature) {
			all.WriteString(rr.String() + "\n")
		}
	}
	z.text = all.String()
	return z
}

// verify verifies the signatures over the RRsets of a section with the zone's key.
func (z signedZone) verify(section []dns.RR) error {
	for _, rr := range section {
		signature, ok := rr.(*dns.RRSIG)
		if !ok {
			continue
		}
		var set []dns.RR
		for _, other := range section {
			h := other.Header()
			if h.Rrtype == signature.TypeCovered && strings.EqualFold(h.Name, signature.Hdr.Name) {
				set = append(set, other)
			}
		}
		if len(set) == 0 {
			return fmt.Errorf("%s covers no records", signature)
		}
		for _, other := range set { // a validator takes it from the signature: RFC 4035 section 5.3.2
			other.Header().Ttl = signature.OrigTtl
		}
		if err := signature.Verify(z.key, set); err != nil {
			return fmt.Errorf("%s: %w", signature, err)
		}
	}
	return nil
}
