package dnsserver

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"
)

// header returns a message header with the given flags and section counts.
func header(flags, counts string) []byte {
	return unhex("1234" + flags + counts)
}

func unhex(s string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		panic(err)
	}
	return b
}

const (
	oneQuestion = "0001 0000 0000 0000"
	withOPT     = "0001 0000 0000 0001"
	wwwIN       = "03 777777 07 6578616d706c65 03 636f6d 00 0001 0001" // www.example.com A IN
)

// oddQuery is a message and its expected outcome.
type oddQuery struct {
	name string
	wire []byte
	want int // rcode, dropped, or handled: NOERROR from the Handler
}

const dropped, handled = -1, -2

// oddQueries returns messages that the server handles by itself, and similar ones. Names in
// parentheses are the checks of RFC 8906 and of ISC's DNS compliance testing.
func oddQueries(t testing.TB) []oddQuery {
	www := unhex(wwwIN)
	plain := header("0100", oneQuestion)
	ask := func(name string, qtype uint16, change ...func(*dns.Msg)) []byte {
		return packed(t, query(name, qtype, change...))
	}
	class := func(c uint16) func(*dns.Msg) { return func(m *dns.Msg) { m.Question[0].Qclass = c } }
	opcode := func(code int) func(*dns.Msg) { return func(m *dns.Msg) { m.Opcode = code } }
	opt := func(ttl, data string) []byte { return unhex("00 0029 04d0" + ttl + data) }
	longName := bytes.Repeat(append([]byte{63}, bytes.Repeat([]byte{'a'}, 63)...), 4)

	return []oddQuery{
		{"plain (dns)", raw(plain, www), handled},
		{"AD (ad)", raw(header("0120", oneQuestion), www), handled},
		{"RA (ra)", raw(header("0180", oneQuestion), www), handled},
		{"TC (tc)", raw(header("0300", oneQuestion), www), handled},
		{"Z", raw(header("0140", oneQuestion), www), handled},
		{"a response", raw(header("8100", oneQuestion), www), dropped},
		{"empty", nil, dropped},
		{"11 octets (short11)", plain[:11], dropped},
		{"header of zeros (tcp-hdr0)", make([]byte, 12), dns.RcodeFormatError},
		{"opcode IQUERY, header only (iquery)", header("0900", "0000 0000 0000 0000"), dns.RcodeNotImplemented},
		{"opcode 3, header only (op3)", header("1900", "0000 0000 0000 0000"), dns.RcodeNotImplemented},
		{"opcode 15, header only (opcode)", header("7900", "0000 0000 0000 0000"), dns.RcodeNotImplemented},
		{"NOTIFY (notify)", ask("example.com.", dns.TypeSOA, opcode(dns.OpcodeNotify)), dns.RcodeNotImplemented},
		{"UPDATE (update)", ask("example.com.", dns.TypeSOA, opcode(dns.OpcodeUpdate)), dns.RcodeNotImplemented},
		{"no question", header("0100", "0000 0000 0000 0000"), dns.RcodeFormatError},
		{"two questions (qd2)", raw(header("0100", "0002 0000 0000 0000"), www, www), dns.RcodeFormatError},
		{"an answer in a query (an1)", raw(header("0100", "0001 0001 0000 0000"), www,
			unhex("c00c 0001 0001 0000003c 0004 06060606")), dns.RcodeFormatError},
		{"an authority record in a query", raw(header("0100", "0001 0000 0001 0000"), www,
			unhex("c00c 0001 0001 0000003c 0004 06060606")), dns.RcodeFormatError},
		{"pointer past the end (ptr-fwd)", raw(plain, unhex("c0ff 0001 0001")), dns.RcodeFormatError},
		{"pointer to itself", raw(plain, unhex("c00c 0001 0001")), dns.RcodeFormatError},
		{"name of 257 octets (name256)", raw(plain, longName, unhex("00 0001 0001")), dns.RcodeFormatError},
		{"question cut in the name (cut-q)", raw(plain, www[:6]), dns.RcodeFormatError},
		{"question cut in the class (cut-q)", raw(plain, www[:len(www)-1]), dns.RcodeFormatError},
		{"question without type (cut-q)", raw(plain, www[:len(www)-4]), dns.RcodeFormatError},
		{"additional section cut", raw(header("0100", withOPT), www, opt("00000000", "0000")[:6]), dns.RcodeFormatError},
		{"trailing junk (trail)", raw(plain, www, bytes.Repeat([]byte{0xff}, 20)), handled},
		{"60000 octets (jumbo)", raw(plain, www, bytes.Repeat([]byte{0xff}, 60000)), handled},
		{"octets that no host name has (binlabel)", raw(plain, unhex("04 002eff20 03 636f6d 00 0001 0001")), handled},
		{"the root", raw(plain, unhex("00 0002 0001")), handled},
		{"type 666 (type666)", ask("www.example.com.", 666), handled},
		{"type 65535 (type65535)", ask("www.example.com.", 65535), handled},
		{"type ANY", ask("www.example.com.", dns.TypeANY), handled},
		{"type OPT (type41)", ask("www.example.com.", dns.TypeOPT), dns.RcodeFormatError},
		{"type TKEY (tkey)", ask("www.example.com.", dns.TypeTKEY), dns.RcodeNotImplemented},
		{"type TSIG", ask("www.example.com.", dns.TypeTSIG), dns.RcodeNotImplemented},
		{"AXFR (axfr-udp)", ask("example.com.", dns.TypeAXFR), dns.RcodeRefused},
		{"IXFR", ask("example.com.", dns.TypeIXFR), dns.RcodeRefused},
		{"class CH (class-ch)", ask("version.bind.", dns.TypeTXT, class(dns.ClassCHAOS)), handled},
		{"class 9 (class-9)", ask("example.com.", dns.TypeA, class(9)), dns.RcodeNotImplemented},
		{"class ANY", ask("example.com.", dns.TypeA, class(dns.ClassANY)), dns.RcodeNotImplemented},
		{"EDNS version 1 (edns1)", raw(header("0100", withOPT), www, opt("00010000", "0000")), dns.RcodeBadVers},
		{"EDNS version 1 with an option (edns1opt)", raw(header("0100", withOPT), www, opt("00010000", "0004 0064 0000")), dns.RcodeBadVers},
		{"unknown EDNS option (ednsopt)", raw(header("0100", withOPT), www, opt("00000000", "0004 0064 0000")), handled},
		{"unknown EDNS flags (ednsflags)", raw(header("0100", withOPT), www, opt("00000040", "0000")), handled},
		{"several options (optlist)", raw(header("0100", withOPT), www,
			opt("00000000", "001f 0003 0000 0008 0007 0001 18 00 c00002 0009 0000 000a 0008 0102030405060708")), handled},
		{"broken client subnet (ecs-bad)", raw(header("0100", withOPT), www, opt("00000000", "000b 0008 0007 0001 21 00 c00002")), dns.RcodeFormatError},
		{"two OPT records (opt-twice)", raw(header("0100", "0001 0000 0000 0002"), www,
			opt("00000000", "0000"), opt("00000000", "0000")), dns.RcodeFormatError},
		{"OPT record not of the root", raw(header("0100", withOPT), www, unhex("01 61 00 0029 04d0 00000000 0000")), dns.RcodeFormatError},
		{"cookie and padding", raw(header("0100", withOPT), www, opt("00000000", "0017 000a 0008 0102030405060708 000c 0003 000000 0003 0000")), handled},
		{"empty cookie", raw(header("0100", withOPT), www, opt("00000000", "0004 000a 0000")), dns.RcodeFormatError},
		{"OPT counted but missing", raw(header("0100", withOPT), www), dns.RcodeFormatError},
		{"option with a cut header", raw(header("0100", withOPT), www, opt("00000000", "0003 000a00")), dns.RcodeFormatError},
		{"option longer than the record", raw(header("0100", withOPT), www, opt("00000000", "0004 000a 0001")), dns.RcodeFormatError},
		{"record longer than the message", raw(header("0100", withOPT), www, opt("00000000", "0005 000a 0000")), dns.RcodeFormatError},
		{"keepalive of one octet", raw(header("0100", withOPT), www, opt("00000000", "0005 000b 0001 00")), handled},
		{"A record instead of an OPT record", raw(header("0100", withOPT), www, unhex("00 0001 0001 00000000 0004 00000000")), handled},
	}
}

func raw(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

func TestOddQueries(t *testing.T) {
	www, plain := unhex(wwwIN), header("0100", oneQuestion)
	s, addr := start(t, Config{Handler: HandlerFunc(func(_ context.Context, q *Query) (*dns.Msg, error) {
		return answerOf("www.example.com. 60 A 192.0.2.1"), nil
	})})
	for _, proto := range []Proto{UDP, TCP} {
		for _, tt := range oddQueries(t) {
			t.Run(tt.name+" "+string(proto), func(t *testing.T) {
				before := s.Stats()
				c := dial(t, proto, addr)
				c.send(tt.wire)
				if tt.want == dropped {
					if proto == TCP && len(tt.wire) < headerSize {
						if n, err := c.conn.Read(make([]byte, 1)); n != 0 || err == nil {
							t.Error("a message that is not DNS got an answer, or its connection stayed open")
						}
						return
					}
					c.send(raw(plain, www)) // the first response is to this one
				}
				wire := c.receiveWire()
				m := new(dns.Msg)
				if err := m.Unpack(wire); err != nil {
					t.Fatalf("%v: %x", err, wire)
				}
				checkResponse(t, tt.wire, wire, m)
				switch after := s.Stats(); tt.want {
				case dropped:
					if after.Dropped != before.Dropped+1 {
						t.Errorf("not counted as dropped: %+v", after)
					}
				case handled:
					if m.Rcode != dns.RcodeSuccess || len(m.Answer) != 1 || after.Answered != before.Answered+1 {
						t.Errorf("not answered: %v", m)
					}
				default:
					if m.Rcode != tt.want || len(m.Answer) != 0 || after.Refused != before.Refused+1 {
						t.Errorf("got %v, want %s", m, dns.RcodeToString[tt.want])
					}
				}
			})
		}
	}
}

// checkResponse checks what must be true of every response.
func checkResponse(t *testing.T, asked, wire []byte, m *dns.Msg) {
	t.Helper()
	if len(asked) < headerSize || asked[2]&0x80 != 0 {
		return // the answer is to the query that followed
	}
	if !bytes.Equal(asked[:2], wire[:2]) || !m.Response || m.Zero || !m.RecursionAvailable {
		t.Errorf("got header %v", m.MsgHdr)
	}
	if got, want := wire[2]&0x79, asked[2]&0x79; got != want { // opcode and RD
		t.Errorf("opcode and RD: got %x, want %x", got, want)
	}
	if end := questionEnd(asked); end > 0 && !bytes.Equal(wire[headerSize:end], asked[headerSize:end]) {
		t.Errorf("question not echoed octet by octet: %x", wire)
	}
	isOther := func(o dns.EDNS0) bool { return o.Option() != dns.EDNS0COOKIE }
	if opt := m.IsEdns0(); opt != nil && (opt.Version() != 0 || slices.ContainsFunc(opt.Option, isOther) || opt.UDPSize() != udpSize || opt.Hdr.Ttl&0x7fff != 0) {
		t.Errorf("got OPT record %v", opt)
	}
}

func TestEDNSFlags(t *testing.T) {
	_, addr := start(t, Config{Handler: HandlerFunc(func(context.Context, *Query) (*dns.Msg, error) {
		m := answerOf("www.example.com. 60 A 192.0.2.1")
		m.AuthenticatedData = true
		m.SetEdns0(4096, true) // the upstream's OPT record, with its own cookie
		m.IsEdns0().Option = []dns.EDNS0{
			&dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: "0102030405060708"},
			&dns.EDNS0_EDE{InfoCode: dns.ExtendedErrorCodeStaleAnswer, ExtraText: "old"},
		}
		return m, nil
	})})
	tests := []struct {
		name       string
		change     func(*dns.Msg)
		do, cd, ad bool
		options    string
	}{
		{"no EDNS", func(*dns.Msg) {}, false, false, false, "no OPT"},
		{"AD requests AD", func(m *dns.Msg) { m.AuthenticatedData = true }, false, false, true, "no OPT"},
		{"DO and CD (docd)", func(m *dns.Msg) { m.SetEdns0(1232, true); m.CheckingDisabled = true }, true, true, true, "15"},
		{"EDNS without DO", edns(1232, &dns.EDNS0_NSID{Code: dns.EDNS0NSID}), false, false, false, "15"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := dial(t, UDP, addr).exchange(query("www.example.com.", dns.TypeA, tt.change))
			options, do := "no OPT", false
			if opt := r.IsEdns0(); opt != nil {
				options, do = "", opt.Do()
				for _, o := range opt.Option {
					options += fmt.Sprint(o.Option())
				}
			}
			if do != tt.do || r.CheckingDisabled != tt.cd || r.AuthenticatedData != tt.ad || options != tt.options {
				t.Errorf("DO %v CD %v AD %v options %q in %v", do, r.CheckingDisabled, r.AuthenticatedData, options, r)
			}
		})
	}
}

// TestPortZero: a query from port 0 has a forged source and gets no response.
func TestPortZero(t *testing.T) {
	s := New(Config{Handler: fixed()})
	defer s.Shutdown(t.Context())
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	u := newLoneSocket(t, s, conn)
	u.received(0, packed(t, query("www.example.com.", dns.TypeA)), netip.MustParseAddrPort("127.0.0.1:0"))
	if got := s.Stats(); got.Dropped != 1 || got.WriteErrors != 0 {
		t.Errorf("got stats %+v", got)
	}
}
