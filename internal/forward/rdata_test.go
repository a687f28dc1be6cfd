package forward

import (
	"encoding/hex"
	"maps"
	"testing"

	"github.com/miekg/dns"
)

// wholeRecords are examples of all types of rdataFields, with each field.
var wholeRecords = []string{
	"A 192.0.2.1", "AAAA 2001:db8::1", "NS a.example.", "CNAME a.example.", "PTR a.example.", "DNAME a.example.", "MB a.example.", "MD a.example.",
	"MF a.example.", "MG a.example.", "MR a.example.", "NSAP-PTR a.example.", "MX 1 a.example.", "AFSDB 1 a.example.", "KX 1 a.example.",
	"RT 1 a.example.", "LP 1 a.example.", "RP a.example. b.example.", "MINFO a.example. b.example.", "TALINK a.example. b.example.",
	"PX 1 a.example. b.example.", "SOA a.example. b.example. 1 2 3 4 5", "SRV 1 2 3 a.example.", `NAPTR 1 2 "u" "s" "r" a.example.`,
	"SVCB 1 a.example. port=1", "HTTPS 0 a.example.", `HINFO "a" "b"`, "X25 1", "GPOS 1 2 3", `CAA 0 issue "a"`, `URI 1 2 "a:b"`,
	"LOC 52 22 23.000 N 4 53 32.000 E -2.00m 0.00m 10000m 10m", "NID 1 0000:0001:0002:0003", "L32 1 192.0.2.1", "L64 1 0000:0001:0002:0003", "EUI48 00-00-5e-00-53-2a",
	"EUI64 00-00-5e-ef-10-00-00-2a", "DS 1 8 2 abcd", "CDS 0 0 0 00", "DLV 1 8 2 abcd", "TA 1 8 2 abcd", "SSHFP 1 1 abcd", "TLSA 3 1 1 abcd",
	"SMIMEA 3 1 1 abcd", "CERT 1 2 3 AAAA", "ZONEMD 1 1 1 " + sha384, "CSYNC 1 3 A", "DNSKEY 256 3 8 AAAA", "CDNSKEY 0 3 0 AA==", "KEY 256 3 8 AAAA",
	"RKEY 0 1 2 AAAA", "RRSIG A 8 2 60 20260101000000 20250101000000 1 example. AAAA", "SIG A 8 2 60 20260101000000 20250101000000 1 example. AAAA",
	"NSEC a.example. A", "NXT a.example. A", "NSEC3 1 0 1 ab 2T7B4G4VSA5SMI47K61MV5BV1A22BOJR A", "NSEC3 1 0 0 - 2T7B4G4VSA5SMI47K61MV5BV1A22BOJR",
	"NSEC3PARAM 1 0 1 ab", "NSEC3PARAM 1 0 0 -",
}

const sha384 = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

// TestWholeRDATA: a record with every field is accepted, and one that ends before a field is not, whatever its type.
func TestWholeRDATA(t *testing.T) {
	left := maps.Clone(rdataFields)
	for _, text := range wholeRecords {
		rr, err := dns.NewRR("www.example. 60 IN " + text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		delete(left, rr.Header().Rrtype)
		wire := make([]byte, 1024)
		size, err := dns.PackRR(rr, wire, 0, nil, false)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		at := len("\x03www\x07example\x00") + 10
		fields := rdataFields[rr.Header().Rrtype]
		if !hasWholeRDATA(wire[:size], 0, []dns.RR{rr}) {
			t.Errorf("%s is not whole", text)
		}
		if hasFields(append(wire[:size:size], 0), at, fields) && fields[len(fields)-1] != '*' {
			t.Errorf("%s is whole with an octet more", text)
		}
		for end := at; end < size; end++ {
			if !hasFields(wire[:end], at, fields) {
				continue
			}
			if rest := fields[:len(fields)-1]; fields[len(rest)] != '*' || end < least(wire[:size], at, rest) {
				t.Errorf("%s is whole with %d octets of %d", text, end-at, size-at)
			}
		}
	}
	for rrtype := range left {
		t.Errorf("no example of %s", dns.TypeToString[rrtype])
	}
}

// least is where the last of the fields ends that have to be there.
func least(wire []byte, at int, fields string) int {
	for end := at; end <= len(wire); end++ {
		if hasFields(wire[:end], at, fields) {
			return end
		}
	}
	return len(wire)
}

// TestCutRDATA: what a server sends with a record that lacks a field is no response: SRV without a target was accepted, and NSEC3
// with less salt than it says was sent on so that no client could read it (found by FuzzDecode).
func TestCutRDATA(t *testing.T) {
	for name, rdata := range map[string]struct {
		rrtype uint16
		octets string
	}{
		"SRV without a target":                {dns.TypeSRV, "\x00\x01\x00\x02\x00\x03"},
		"SRV without a port":                  {dns.TypeSRV, "\x00\x01\x00\x02"},
		"MX without an exchange":              {dns.TypeMX, "\x00\x01"},
		"SOA without a minimum":               {dns.TypeSOA, "\x01a\x00\x01b\x00" + "\x00\x00\x00\x01\x00\x00\x00\x02\x00\x00\x00\x03\x00\x00\x00\x04"},
		"NSEC3 with less salt than it says":   {dns.TypeNSEC3, "\x00\x01\x08\x01\x0a"},
		"HIP with less of a key than it says": {dns.TypeHIP, "\x01\x02\x00\x08\xaa"},
	} {
		t.Run(name, func(t *testing.T) {
			sent, m := sentQuery(t, withEDNS)
			m.Answer = []dns.RR{&dns.RFC3597{Hdr: dns.RR_Header{Name: "www.example.", Rrtype: rdata.rrtype, Class: dns.ClassINET, Ttl: 60}, Rdata: hex.EncodeToString([]byte(rdata.octets))}}
			wire, err := m.Pack()
			if err != nil {
				t.Fatal(err)
			}
			if m, err := decode(sent, wire); err == nil {
				t.Errorf("accepted: %v", m.Answer)
			}
		})
	}
}
