package edns

import (
	"bytes"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/test/dnstest"
)

// An upstreamRow is a behavior of the upstream nameserver for one question, and the expected
// answer.
type upstreamRow struct {
	id, ref string
	faults  dnstest.Faults
	always  bool   // for every question, not only for this one
	asked   []byte // nil means www with EDNS
	want    string // result of judge
	note    string
	then    func(t *testing.T, p played, m *dns.Msg) // nil if there is nothing else to check
}

const failed = "SERVFAIL opt ede=22"

var upstreamRows = []upstreamRow{
	{id: "up-wrongidthenok", ref: "RFC 5452", faults: dnstest.Faults{WrongID: true, Copies: 3, ThenOK: true}, want: "NOERROR an=1 opt"},
	{
		id: "up-wrongsrc", ref: "RFC 5452 9.1", faults: dnstest.Faults{WrongSource: true}, want: "NOERROR an=1 opt", note: "nothing of it is accepted: the answer comes over TCP",
		then: func(t *testing.T, _ played, m *dns.Msg) {
			if addr := m.Answer[0].(*dns.A).A.String(); addr == dnstest.ForgedA {
				t.Errorf("accepted the forged %s", addr)
			}
		},
	},
	{id: "up-wrongsrcthenok", ref: "RFC 5452 9.1", faults: dnstest.Faults{WrongSource: true, Copies: 3, ThenOK: true}, want: "NOERROR an=1 opt"},
	{id: "up-wrongq", ref: "RFC 5452 9.1", faults: dnstest.Faults{WrongQuestion: true}, want: failed},
	{id: "up-wrongqthenok", ref: "RFC 5452 9.1", faults: dnstest.Faults{WrongQuestion: true, ThenOK: true}, want: "NOERROR an=1 opt"},
	{id: "up-wrongtype", ref: "RFC 5452", faults: dnstest.Faults{WrongType: true}, want: failed},
	{id: "up-wrongtypethenok", ref: "RFC 5452", faults: dnstest.Faults{WrongType: true, ThenOK: true}, want: "NOERROR an=1 opt"},
	{id: "up-noq", ref: "RFC 5452 9.1", faults: dnstest.Faults{NoQuestion: true}, want: failed},
	{id: "up-qr0", ref: "RFC 1035", faults: dnstest.Faults{Raw: asAnswer(func(m []byte) { m[2] &^= 0x80 })}, want: failed},
	{id: "up-qr0thenok", ref: "RFC 1035", faults: dnstest.Faults{Raw: asAnswer(func(m []byte) { m[2] &^= 0x80 }), ThenOK: true}, want: "NOERROR an=1 opt"},
	{id: "up-opcode", ref: "RFC 1035", faults: dnstest.Faults{Raw: asAnswer(func(m []byte) { m[2] |= 4 << 3 }), ThenOK: true}, want: "NOERROR an=1 opt"},
	{
		id: "up-ansextra", ref: "bailiwick", faults: dnstest.Faults{ExtraRR: "stray.t.example. 300 IN A 6.6.6.6\n"}, want: "NOERROR an=1 opt",
		note: "dropped, and not remembered", then: strayIsNotBelieved,
	},
	{
		id: "up-addextra", ref: "bailiwick", faults: dnstest.Faults{ExtraAdditional: "stray.t.example. 300 IN A 6.6.6.6\n"}, want: "NOERROR an=1 opt",
		note: "likewise", then: strayIsNotBelieved,
	},
	{
		id: "up-garbagethenok", ref: "TuDoor (CVE-2023-28452)", want: "NOERROR an=1 opt",
		faults: dnstest.Faults{ThenOK: true, Raw: func(asked []byte) [][]byte {
			return [][]byte{{}, {0x12}, asked[:11], raw(asked[:2], junk[:60]), asked, raw(asked[:2], unhex("8180 0001 0001 0000 0000 c00c ff"))}
		}},
	},
	{
		id: "up-hdronly", ref: "robustness", want: failed, note: "no answer at all, rather than one without data",
		faults: dnstest.Faults{Raw: func(asked []byte) [][]byte { return [][]byte{raw(asked[:2], unhex("8180 0001 0001 0000 0000"))} }},
	},
	{
		id: "up-hdrq", ref: "robustness", want: failed, note: "the same with the question behind the header",
		faults: dnstest.Faults{Raw: func(asked []byte) [][]byte {
			return [][]byte{raw(asked[:2], unhex("8180 0001 0001 0000 0000"), asked[12:ownEnd(asked)])}
		}},
	},
	{
		id: "up-ptrloop", ref: "RFC 9267", want: failed,
		faults: dnstest.Faults{Raw: func(asked []byte) [][]byte {
			end := ownEnd(asked)
			return [][]byte{raw(asked[:2], unhex("8180 0001 0001 0000 0000"), asked[12:end], []byte{0xc0, byte(end)}, unhex("0001 0001 0000012c 0004 06060606"))}
		}},
	},
	{id: "up-trunc", ref: "RFC 1035; RFC 7766", faults: dnstest.Faults{Truncate: true}, want: "NOERROR an=1 opt", note: "whole, over TCP"},
	{id: "up-cut", ref: "RFC 2181 9", faults: dnstest.Faults{CutUDP: true}, want: "NOERROR an=1 opt", note: "an answer that ends early is asked for again, over TCP"},
	{id: "up-dropedns", ref: "RFC 6891", always: true, faults: dnstest.Faults{DropOnEDNS: true}, want: "NOERROR an=1 opt"},
	{id: "up-badvers", ref: "RFC 6891", always: true, faults: dnstest.Faults{BadVersOnEDNS: true}, want: "NOERROR an=1 opt"},
	{id: "up-formerr", ref: "RFC 6891 7", always: true, faults: dnstest.Faults{FormErrOnEDNS: true}, want: "NOERROR an=1 opt"},
	{id: "up-formerr-header", ref: "RFC 6891 7", always: true, faults: dnstest.Faults{FormErrOnEDNS: true, NoQuestion: true}, want: "NOERROR an=1 opt"},
	{id: "up-notimp", ref: "RFC 6891 7", always: true, faults: dnstest.Faults{NotImpOnEDNS: true}, want: "NOERROR an=1 opt"},
	{
		id: "up-maxttl", ref: "RFC 2181 8", want: "NOERROR an=1 opt", note: "the highest bit means 0: not remembered",
		faults: dnstest.Faults{Raw: asAnswer(func(m []byte) { copy(m[ownEnd(m)+6:], junk[:4]) })},
		then: func(t *testing.T, _ played, m *dns.Msg) {
			if ttl := m.Answer[0].Header().Ttl; ttl != 0 {
				t.Errorf("TTL %d", ttl)
			}
		},
	},
	{id: "up-servfail", ref: "RFC 8767", faults: dnstest.Faults{Rcode: dns.RcodeServerFailure}, want: "SERVFAIL opt"},
	{id: "up-refused", ref: "RFC 8767", faults: dnstest.Faults{Rcode: dns.RcodeRefused}, want: "REFUSED opt"},
	{id: "up-drop", ref: "RFC 8914 4.23", faults: dnstest.Faults{Drop: true}, want: failed, note: "in time, and says why"},
	{id: "up-drop-plain", ref: "robustness", faults: dnstest.Faults{Drop: true}, asked: query(www), want: "SERVFAIL"},
}

// asAnswer returns the response with www's address, modified by change.
func asAnswer(change func(response []byte)) func(asked []byte) [][]byte {
	return func(asked []byte) [][]byte {
		m := raw(asked[:2], unhex("8180 0001 0001 0000 0000"), asked[12:ownEnd(asked)], unhex("c00c 0001 0001 0000012c 0004 c0000201"))
		change(m)
		return [][]byte{m}
	}
}

func strayIsNotBelieved(t *testing.T, p played, _ *dns.Msg) {
	t.Helper()
	if m := dnstest.Exchange(t, p.daemon, "stray.t.example.", dns.TypeA); m.Answer[0].(*dns.A).A.String() != "192.0.2.1" {
		t.Errorf("accepted the stray %v", m.Answer)
	}
	if n := p.upstream.QueriesFor("stray.t.example.", dns.TypeA); n != 1 {
		t.Errorf("the upstream got %d queries for it", n)
	}
}

// played is a row with its own daemon, which still runs.
type played struct {
	upstream        *dnstest.Server
	daemon          netip.AddrPort
	label           string
	asked, response []byte
}

func play(t *testing.T, r upstreamRow) played {
	t.Helper()
	p := played{upstream: dnstest.NewServer(t, world), label: unused()}
	p.daemon = serve(t, p.upstream)
	p.upstream.SetFaultsFor(strings.ReplaceAll(one, placeholder, p.label), r.faults)
	if r.always {
		p.upstream.SetFaults(r.faults)
	}
	p.asked = named(query(www, opt(1232, 0)), p.label)
	if r.asked != nil {
		p.asked = named(r.asked, p.label)
	}
	conn := dial(t, "udp", p.daemon).conn
	if _, err := conn.Write(p.asked); err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, 1<<16)
	n, err := conn.Read(buffer)
	if err != nil {
		t.Fatal(err)
	}
	p.response = buffer[:n]
	return p
}

// TestUpstream: whatever the only upstream nameserver answers, the client gets the right answer or
// an error, and never forged data.
func TestUpstream(t *testing.T) {
	t.Parallel()
	for _, r := range upstreamRows {
		t.Run(r.id, func(t *testing.T) {
			t.Parallel()
			p := play(t, r)
			line, faults := judge(p.asked, p.response, "udp")
			if line != r.want || len(faults) > 0 {
				t.Fatalf("%s; want %s; faults %q: %x", line, r.want, faults, p.response)
			}
			if bytes.Contains(p.response, []byte{6, 6, 6, 6}) {
				t.Errorf("the response contains forged data: %x", p.response)
			}
			if r.then != nil {
				m := new(dns.Msg)
				if err := m.Unpack(p.response); err != nil {
					t.Fatal(err)
				}
				r.then(t, p, m)
			}
		})
	}
}

// upstreamIDs returns the IDs of the rows.
func upstreamIDs() (ids []string) {
	for _, r := range upstreamRows {
		ids = append(ids, r.id)
	}
	return slices.Clip(ids)
}
