package dnsserver

import (
	"bytes"
	"context"
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnswire"
)

// FuzzServe: whatever arrives, the server does not panic. A response is a well-formed message with
// the ID, opcode and RD of the query, its question or none, and no larger than the client accepts.
// Messages that are not queries get no response.
func FuzzServe(f *testing.F) {
	for i, odd := range oddQueries(f) {
		f.Add(odd.wire, i%2 == 0, byte(i))
	}
	f.Add([]byte{}, false, byte(0))
	f.Add(packed(f, query("www.example.com.", dns.TypeA)), false, byte(200))
	f.Add(packed(f, query("WWW.example.com.", dns.TypeAAAA, edns(4096, &dns.EDNS0_NSID{Code: dns.EDNS0NSID}))), true, byte(3))
	f.Add(unhex("1234 0100 0001 0000 0000 0001"+wwwIN+"00 0029 04d0 00010000 0004 0064 0000"), false, byte(1))
	f.Add(unhex("1234 0100 0001 0000 0000 0000 04 002eff20 00 0001 0001"), false, byte(2))
	f.Fuzz(func(t *testing.T, wire []byte, tcp bool, records byte) {
		m := answerOf(addresses(int(records))...)
		s := New(Config{Handler: HandlerFunc(func(_ context.Context, q *Query) (*dns.Msg, error) {
			class := q.Msg.Question[0].Qclass
			if class != dns.ClassINET && class != dns.ClassCHAOS || len(q.Msg.Question) != 1 || len(q.Msg.Answer)+len(q.Msg.Ns) > 0 {
				t.Errorf("the Handler was called for %v", q.Msg)
			}
			return m, nil
		})})
		defer s.cancel()
		x := exchange{wire: wire, client: netip.MustParseAddrPort("192.0.2.1:1024"), proto: UDP}
		if tcp {
			x.proto = TCP
		}
		v, rcode := accept(wire)
		var response []byte
		switch v {
		case refuse:
			response = s.refuse(x, rcode)
		case parse:
			response = s.serve(x, make([]byte, bufferSize))
		}
		if response == nil {
			if v != drop {
				t.Error("no response")
			}
			return
		}
		if wire[2]&0x80 != 0 {
			t.Error("a response got a response")
		}
		checkWire(t, wire, response, tcp)
		if s.Stats().Panics > 0 {
			t.Error("answering panicked")
		}
	})
}

func checkWire(t *testing.T, wire, response []byte, tcp bool) {
	t.Helper()
	m := new(dns.Msg)
	if err := m.Unpack(response); err != nil {
		t.Fatalf("not well-formed: %v: %x", err, response)
	}
	if binary.BigEndian.Uint16(response) != binary.BigEndian.Uint16(wire) || !m.Response || m.Zero || (response[2]^wire[2])&0x79 != 0 {
		t.Errorf("got header %v", m.MsgHdr)
	}
	end := headerSize
	if len(m.Question) > 0 {
		if end = questionEnd(wire); end == 0 || !bytes.HasPrefix(response[headerSize:], wire[headerSize:end]) {
			t.Fatalf("wrong question: %x", response)
		}
	}
	if !dnswire.IsWhole(response, end) {
		t.Errorf("the sections do not match the header counts: %x", response)
	}
	limit := len(wire) + cookieSize // no longer than the query, except for a cookie
	if end > headerSize {
		limit = dns.MinMsgSize
		if e, _ := readExtension(wire, end); e.fixed > 0 {
			limit = min(max(limit, e.size), udpSize)
		}
	}
	if !tcp && len(response) > limit {
		t.Errorf("%d octets over UDP, more than %d", len(response), limit)
	}
	if opt := m.IsEdns0(); opt != nil && findOPT(wire) == 0 {
		t.Errorf("EDNS in the response to a query without EDNS: %x", response)
	}
}
