package dnsserver

import (
	"bytes"
	"context"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// FuzzWireQuery: for every query passed to Config.Wire, the parser finds no fault, and reads the
// same question, flags and response size.
func FuzzWireQuery(f *testing.F) {
	for _, odd := range oddQueries(f) {
		f.Add(odd.wire)
	}
	f.Fuzz(func(t *testing.T, wire []byte) {
		if v, _ := accept(wire); v != parse {
			return
		}
		for _, proto := range []Proto{UDP, TCP} {
			var got WireQuery
			ok := got.read(&exchange{wire: wire, proto: proto}, udpSize)
			if !ok {
				continue
			}
			q, e, rcode := parseQuery(wire, netip.AddrPort{}, netip.AddrPort{}, proto)
			short, cookie := shortened(wire)
			switch brief, again, _ := parseQuery(short, netip.AddrPort{}, netip.AddrPort{}, proto); {
			case len(short) > shortQuery || int(cookie) != again.cookie || !bytes.Equal(wire[e.cookie:][:e.shown], short[again.cookie:][:again.shown]):
				t.Fatalf("%x has the cookie at %d", short, cookie)
			case brief == nil || brief.Msg.String() != q.Msg.String():
				t.Fatalf("%x of %v", short, q.Msg)
			}
			if rcode != dns.RcodeSuccess || q.Msg.Question[0].Qclass != dns.ClassINET {
				t.Fatalf("%s, %v", dns.RcodeToString[rcode], q)
			}
			opt := q.Msg.IsEdns0()
			if (got.cookie > 0) != (e.cookie > 0) || !bytes.Equal(got.Msg[got.cookie:][:e.shown], wire[e.cookie:][:e.shown]) {
				t.Fatalf("%+v has another cookie than %v", got, q.Msg)
			}
			if got.Limit+cookieRoom(e) != q.limit(udpSize) || got.EDNS != (opt != nil) || got.DO != (opt != nil && opt.Do()) {
				t.Fatalf("%+v of %v", got, q.Msg)
			}
			name, end, err := dns.UnpackDomainName(got.Name(), 0)
			if question := q.Msg.Question[0]; err != nil || end != len(got.Name()) || name != question.Name || got.Type() != question.Qtype ||
				!bytes.Equal(got.Question(), wire[headerSize:headerSize+end+4]) {
				t.Fatalf("%q and %d of %v", name, got.Type(), question)
			}
		}
	})
}

// cookieRoom returns the number of bytes that a cookie takes in the response.
func cookieRoom(e extension) int {
	if e.cookie > 0 {
		return cookieSize
	}
	return 0
}

// FuzzQuestion: questionEnd finds a question whenever package dns does, unless its name is
// compressed.
func FuzzQuestion(f *testing.F) {
	for _, odd := range oddQueries(f) {
		f.Add(odd.wire)
	}
	f.Fuzz(func(t *testing.T, wire []byte) {
		if len(wire) < headerSize || count(wire, 4) != 1 {
			return
		}
		end := questionEnd(wire)
		_, nameEnd, err := dns.UnpackDomainName(wire, headerSize)
		want := nameEnd + 4
		if err != nil || want > len(wire) {
			want = 0
		}
		if end != want && !(end == 0 && isCompressed(wire[headerSize:nameEnd])) {
			t.Fatalf("the question ends at %d, for package dns at %d", end, want)
		}
	})
}

func isCompressed(name []byte) bool {
	at := 0
	for at < len(name) && name[at] <= maxLabel {
		at += 1 + int(name[at])
	}
	return at < len(name)
}

// TestWireIsAsked checks which of the odd queries reach Config.Wire: those of class IN that are
// handled. What follows the question besides an OPT record is left out: a byte there made a cache
// hit of 64 KiB 20 times as expensive.
func TestWireIsAsked(t *testing.T) {
	asked := map[string]bool{}
	for _, name := range []string{
		"plain (dns)", "AD (ad)", "RA (ra)", "TC (tc)", "Z", "octets that no host name has (binlabel)", "the root",
		"trailing junk (trail)", "60000 octets (jumbo)", "A record instead of an OPT record", "type 666 (type666)", "type 65535 (type65535)", "type ANY", "unknown EDNS flags (ednsflags)", "cookie and padding",
		"unknown EDNS option (ednsopt)", "several options (optlist)", "keepalive of one octet",
	} {
		asked[name] = true
	}
	for _, odd := range oddQueries(t) {
		v, _ := accept(odd.wire)
		got := false
		if v == parse {
			got = new(WireQuery).read(&exchange{wire: odd.wire, proto: UDP}, udpSize)
		}
		if got != asked[odd.name] || got && odd.want != handled {
			t.Errorf("%s: Wire called: %v", odd.name, got)
		}
	}
}

// wired returns a WireFunc that answers "hit." and names below it, and panics for "panics.".
func wired(seen chan<- WireQuery) WireFunc {
	return func(dst []byte, q *WireQuery) ([]byte, bool) {
		m := new(dns.Msg)
		if err := m.Unpack(q.Msg); err != nil {
			return dst, false
		}
		switch name := m.Question[0].Name; {
		case name == "panics.":
			panic("out of cheese")
		case !dns.IsSubDomain("hit.", name):
			return dst, false
		}
		kept := *q
		kept.Msg = nil // the message must not be kept
		select {
		case seen <- kept:
		default:
		}
		m.Response, m.Truncated = true, m.Question[0].Name == "large.hit."
		response, err := m.Pack()
		return append(dst, response...), err == nil
	}
}

func TestWire(t *testing.T) {
	t.Parallel()
	for _, proto := range []Proto{UDP, TCP} {
		t.Run(string(proto), func(t *testing.T) {
			seen := make(chan WireQuery, 1)
			entered, release := make(chan struct{}), make(chan struct{})
			s, addr := start(t, Config{MaxInFlight: 1, Wire: wired(seen), Handler: HandlerFunc(func(_ context.Context, q *Query) (*dns.Msg, error) {
				if q.Name.Relative() == "waits" {
					close(entered)
					<-release
				}
				return &dns.Msg{MsgHdr: dns.MsgHdr{Rcode: dns.RcodeNameError}}, nil
			})})
			c := dial(t, proto, addr)
			rcode := func(name string, want int) {
				t.Helper()
				asked := query(name, dns.TypeA, edns(900))
				if r := c.exchange(asked); r.Rcode != want || r.Id != asked.Id {
					t.Errorf("%s: got %v, want %s", name, r, dns.RcodeToString[want])
				}
				// The slot is released after the response.
				for s.Stats().InFlight != 0 && want == dns.RcodeNameError {
					time.Sleep(time.Millisecond)
				}
			}
			rcode("hit.", dns.RcodeSuccess)
			want := WireQuery{Limit: 900, Client: c.conn.LocalAddr().(interface{ AddrPort() netip.AddrPort }).AddrPort(), Local: addr, Proto: proto}
			if proto == TCP {
				want.Limit = dns.MaxMsgSize
			}
			if got := <-seen; got.Limit != want.Limit || got.Client != want.Client || got.Local != want.Local || got.Proto != proto {
				t.Errorf("Wire got %+v, want %+v", got, want)
			}
			rcode("large.hit.", dns.RcodeSuccess)
			rcode("miss.", dns.RcodeNameError)
			rcode("panics.", dns.RcodeNameError)

			waits := query("waits.", dns.TypeA)
			c.send(packed(t, waits))
			<-entered
			rcode("hit.", dns.RcodeSuccess) // a hit needs no slot
			rcode("shed.", dns.RcodeServerFailure)
			close(release)
			if r := c.receive(); r.Id != waits.Id {
				t.Errorf("got %v", r)
			}
			got := s.Stats()
			got.UDPQueries, got.TCPQueries, got.TCPAccepted, got.TCPOpen, got.InFlight = 0, 0, 0, 0, 0
			if want := (Stats{Answered: 6, Shed: 1, Panics: 1, Truncated: 1}); got != want {
				t.Errorf("counted %+v, want %+v", got, want)
			}
		})
	}
}

// TestWireAllocates: the fast path allocates nothing, from the received datagram to the sent one.
func TestWireAllocates(t *testing.T) {
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	at := conn.LocalAddr().(*net.UDPAddr)
	client, err := net.DialUDP("udp4", nil, at)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	s := New(Config{Wire: func(dst []byte, q *WireQuery) ([]byte, bool) { return append(dst, q.Msg...), true }})
	defer s.Shutdown(t.Context())
	u := newLoneSocket(t, s, conn)
	wire := packed(t, query("www.example.com.", dns.TypeA, edns(1232)))
	receive := func() {
		for range 3 { // more than one per batch
			if _, err := client.Write(wire); err != nil {
				t.Fatal(err)
			}
		}
		if err := u.file.Control(func(fd uintptr) { u.receiveBatch(fd, false) }); err != nil {
			t.Fatal(err)
		}
	}
	receive() // buffers are allocated on first use
	receive()
	if n := testing.AllocsPerRun(100, receive); n != 0 {
		t.Errorf("got %v allocations, want 0", n)
	}
	if got := s.Stats(); got.WriteErrors != 0 || got.Answered != got.UDPQueries || got.Answered < 300 {
		t.Errorf("got stats %+v", got)
	}
}
