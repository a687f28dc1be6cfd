package dnswire

import (
	"bytes"
	"encoding/binary"
	"maps"
	"strings"
	"testing"

	"github.com/miekg/dns"
)

// wholeRecords are examples of all types in layouts, with every field.
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
	`TXT "a" "b"`, `SPF "v=spf1"`, `AVC "a"`, `NINFO "a"`, `RESINFO "a"`, "UID 1", "GID 1", `UINFO "a"`, "APL 1:10.0.0.0/8 2:2001:db8::/32",
	"HIP 2 200100107b1a74df365639cc39f1d578 AwEAAbdx a.example. b.example.", "IPSECKEY 1 0 2 . AAAA", "IPSECKEY 1 1 2 192.0.2.1 AAAA",
	"IPSECKEY 1 2 2 2001:db8::1 AAAA", "IPSECKEY 1 3 2 a.example. AAAA", "AMTRELAY 1 0 0 .", "AMTRELAY 1 0 1 192.0.2.1", "AMTRELAY 1 0 3 a.example.",
	`ISDN "1" "2"`,
	"NSEC3PARAM 1 0 1 ab", "NSEC3PARAM 1 0 0 -",
}

const sha384 = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

// message returns a response with these bytes as the RDATA of its answer.
func message(rrtype uint16, rdata []byte) []byte {
	m := []byte{0, 1, 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0}
	m = append(m, "\x03www\x07example\x00\x00\x01\x00\x01"...)
	m = append(m, 0xc0, HeaderSize)
	m = binary.BigEndian.AppendUint16(m, rrtype)
	m = append(m, 0, 1, 0, 0, 0, 60)
	m = binary.BigEndian.AppendUint16(m, uint16(len(rdata)))
	return append(m, rdata...)
}

// octetsOf returns the RDATA of a record in zone-file syntax.
func octetsOf(t testing.TB, text string) (rrtype uint16, rdata []byte) {
	t.Helper()
	rr, err := dns.NewRR("www.example. 60 IN " + text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	wire := make([]byte, 1024)
	size, err := dns.PackRR(rr, wire, 0, nil, false)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return rr.Header().Rrtype, wire[len("\x03www\x07example\x00")+10 : size]
}

// TestWholeRDATA: a record with every field is parsed, and stays the same when packed or shown. A
// record that ends before a field is rejected, regardless of its type.
func TestWholeRDATA(t *testing.T) {
	left := maps.Clone(layouts)
	delete(left, dns.TypeTSIG) // they have no text form
	delete(left, dns.TypeTKEY)
	for _, text := range wholeRecords {
		rrtype, rdata := octetsOf(t, text)
		delete(left, rrtype)
		m, err := Unpack(message(rrtype, rdata))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		packed := make([]byte, 1024)
		size, err := dns.PackRR(m.Answer[0], packed, 0, nil, false)
		if err != nil || !bytes.HasSuffix(packed[:size], rdata) {
			t.Errorf("%s is packed as %x, %v, but was parsed from %x", text, packed[:size], err, rdata)
		}
		if rr, _ := dns.NewRR("www.example. 60 IN " + text); Readable(m.Answer[0]).String() != rr.String() {
			t.Errorf("%s is shown as %s", text, Readable(m.Answer[0]))
		}
		fields := layouts[rrtype].fields
		last := fields[len(fields)-1]
		if _, err := Unpack(message(rrtype, append(rdata[:len(rdata):len(rdata)], 0))); err == nil && !strings.ContainsRune("*SN", rune(last)) {
			t.Errorf("%s is accepted with an extra octet", text)
		}
		least := layout{fields: fields[:len(fields)-1]}
		for end := range rdata {
			_, err := Unpack(message(rrtype, rdata[:end]))
			_, isRest := least.walk(rdata[:end], 0, plainName)
			if !isRest {
				isRest = begins(least, rdata[:end])
			}
			if err == nil && !(strings.ContainsRune("*SNpba", rune(last)) && isRest) {
				t.Errorf("%s is accepted with %d octets of %d", text, end, len(rdata))
			}
		}
	}
	for rrtype := range left {
		t.Errorf("no example of %s", dns.TypeToString[rrtype])
	}
}

// begins reports whether a prefix of the RDATA matches the layout.
func begins(l layout, rdata []byte) bool {
	for end := range len(rdata) + 1 {
		if _, ok := l.walk(rdata[:end], 0, plainName); ok {
			return true
		}
	}
	return false
}

// TestCutRDATA: a record that lacks a field is rejected. SRV without a target used to be accepted,
// and NSEC3 with less salt than announced was passed on in a form that no client could read (found
// by FuzzDecode). Compressed names are rejected in types that must not have them: a HIP record of
// 64 KiB with 32,000 pointers became 8 MB, and 20 of them per second stopped the node's DNS
// (CVE-2026-82399 is the same bug in CoreDNS).
func TestCutRDATA(t *testing.T) {
	const pointer = "\xc0\x0c"
	for name, rdata := range map[string]struct {
		rrtype uint16
		octets string
	}{
		"SRV without a target":                     {dns.TypeSRV, "\x00\x01\x00\x02\x00\x03"},
		"SRV without a port":                       {dns.TypeSRV, "\x00\x01\x00\x02"},
		"MX without an exchange":                   {dns.TypeMX, "\x00\x01"},
		"SOA without a minimum":                    {dns.TypeSOA, "\x01a\x00\x01b\x00" + "\x00\x00\x00\x01\x00\x00\x00\x02\x00\x00\x00\x03\x00\x00\x00\x04"},
		"NSEC3 with salt cut short":                {dns.TypeNSEC3, "\x00\x01\x08\x01\x0a"},
		"HIP with key cut short":                   {dns.TypeHIP, "\x01\x02\x00\x08\xaa"},
		"HIP with a compressed name":               {dns.TypeHIP, "\x01\x02\x00\x01\xaa\xbb" + pointer},
		"HIP with a name that ends with a pointer": {dns.TypeHIP, "\x01\x02\x00\x01\xaa\xbb\x01a" + pointer},
		"DNAME with a compressed name":             {dns.TypeDNAME, pointer},
		"SVCB with a compressed name":              {dns.TypeSVCB, "\x00\x01" + pointer},
		"NSEC with a compressed name":              {dns.TypeNSEC, pointer + "\x00\x01\x40"},
		"RRSIG with a compressed name":             {dns.TypeRRSIG, "\x00\x01\x08\x02\x00\x00\x00\x3c\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01" + pointer + "\xaa"},
		"IPSECKEY with a compressed name":          {dns.TypeIPSECKEY, "\x01\x03\x02" + pointer + "\xaa"},
		"AMTRELAY with a compressed name":          {dns.TypeAMTRELAY, "\x01\x03" + pointer},
		"TALINK with a compressed name":            {dns.TypeTALINK, "\x00" + pointer},
		"NSEC with unordered types":                {dns.TypeNSEC, "\x00\x01\x01\x40\x00\x01\x40"},
		"SVCB with a key twice":                    {dns.TypeSVCB, "\x00\x01\x00\x00\x03\x00\x02\x00\x35\x00\x03\x00\x02\x00\x35"},
		"SVCB with half an alpn":                   {dns.TypeSVCB, "\x00\x01\x00\x00\x01\x00\x02\x02h"},
		"SVCB with half an address":                {dns.TypeSVCB, "\x00\x01\x00\x00\x04\x00\x02\x01\x02"},
		"an OPT record with 65 options":            {dns.TypeOPT, strings.Repeat("\xff\x00\x00\x00", 65)},
	} {
		t.Run(name, func(t *testing.T) {
			if m, err := Unpack(message(rdata.rrtype, []byte(rdata.octets))); err == nil {
				t.Errorf("accepted: %v", m.Answer)
			}
		})
	}
}
