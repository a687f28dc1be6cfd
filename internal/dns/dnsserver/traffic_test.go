package dnsserver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
	"unique"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// trafficOf returns the traffic of a transport as text, once the expected number of queries is
// done.
func trafficOf(t *testing.T, s *Server, proto Proto, queries uint64) string {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		var words []string
		asked := uint64(0)
		for _, one := range s.Traffic() {
			if one.Proto != proto || one.IPv6 {
				continue
			}
			for i, n := range one.Types {
				if asked += n; n > 0 {
					words = append(words, fmt.Sprintf("%s %d", TypeNames[i], n))
				}
			}
			if one.DO > 0 {
				words = append(words, fmt.Sprintf("DO %d", one.DO))
			}
			for i, n := range one.Rcodes {
				if n > 0 {
					words = append(words, fmt.Sprintf("%s %d", RcodeNames[i], n))
				}
			}
			took, _, _ := one.Durations.Buckets()
			in, _, _ := one.Queries.Buckets()
			out, _, _ := one.Responses.Buckets()
			words = append(words, fmt.Sprintf("in %d out %d took %d", in, out, took))
		}
		if asked >= queries || time.Now().After(deadline) {
			return strings.Join(words, ", ")
		}
	}
}

// do sets the DO bit of a query that has EDNS.
func do(m *dns.Msg) { m.IsEdns0().SetDo() }

// TestTraffic: every query is counted once, on every path, with its type and response code.
func TestTraffic(t *testing.T) {
	handler := HandlerFunc(func(_ context.Context, q *Query) (*dns.Msg, error) {
		switch q.Name.Relative() {
		case "no":
			return new(dns.Msg).SetRcode(q.Msg, dns.RcodeNameError), nil
		case "broken":
			return nil, errors.New("broken")
		case "silent":
			return nil, nil
		case "panic":
			panic("here")
		}
		return answerOf("yes. 60 A 192.0.2.1"), nil
	})
	cfg := Config{
		Handler: handler,
		Wire: func(dst []byte, q *WireQuery) ([]byte, bool) {
			if !strings.HasPrefix(string(q.Name()), "\x04wire") {
				return dst, false
			}
			dst = append(dst, q.Msg...)
			dst[len(dst)-len(q.Msg)+2] |= 0x80
			return dst, true
		},
		Miss: func(l *PendingQuery) bool {
			if !strings.HasPrefix(string(l.Query().Name()), "\x05later") {
				return false
			}
			go func() {
				out := new(ResponseBatch)
				l.SendWith(out, append(out.Buffer()[:0], errorReply(l.Query().Msg, dns.RcodeRefused)...), unique.Make(nameserver.Server{}))
				out.Flush()
			}()
			return true
		},
		Access: &Access{Host: NewNetworks([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")})},
	}
	tests := []struct {
		name  string
		query *dns.Msg
		udp   string
		tcp   string // "" if the same as udp
	}{
		{"Handler", query("yes.", dns.TypeA), "A 1, NOERROR 1, in 1 out 1 took 1", ""},
		{"with EDNS", query("yes.", dns.TypeAAAA, edns(1232)), "AAAA 1, NOERROR 1, in 1 out 1 took 1", ""},
		{"Handler with DO", query("yes.", dns.TypeAAAA, edns(1232), do), "AAAA 1, DO 1, NOERROR 1, in 1 out 1 took 1", ""},
		{"Wire with DO", query("wire.", dns.TypeA, edns(1232), do), "A 1, DO 1, NOERROR 1, in 1 out 1 took 1", ""},
		{"Miss with DO", query("later.", dns.TypeA, edns(1232), do), "A 1, DO 1, REFUSED 1, in 1 out 1 took 1", "A 1, DO 1, NOERROR 1, in 1 out 1 took 1"},
		{"NOTIFY with DO", query("yes.", dns.TypeA, edns(1232), do, func(m *dns.Msg) { m.Opcode = dns.OpcodeNotify }), "A 1, NOTIMP 1, in 1 out 1 took 1", ""},
		{"no such name", query("no.", dns.TypeSRV), "SRV 1, NXDOMAIN 1, in 1 out 1 took 1", ""},
		{"a failure", query("broken.", dns.TypeHTTPS), "HTTPS 1, SERVFAIL 1, in 1 out 1 took 1", ""},
		{"a panic", query("panic.", dns.TypeMX), "MX 1, SERVFAIL 1, in 1 out 1 took 1", ""},
		{"silence", query("silent.", dns.TypeTXT), "TXT 1, in 1 out 0 took 0", ""},
		{"Wire", query("wire.", dns.TypeSVCB), "SVCB 1, NOERROR 1, in 1 out 1 took 1", ""},
		{"later", query("later.", dns.TypePTR), "PTR 1, REFUSED 1, in 1 out 1 took 1", "PTR 1, NOERROR 1, in 1 out 1 took 1"},
		{"uncounted type", query("yes.", 65280), "other 1, NOERROR 1, in 1 out 1 took 1", ""},
		{"a transfer", query("yes.", dns.TypeAXFR), "other 1, REFUSED 1, in 1 out 1 took 1", ""},
		{"two questions", query("yes.", dns.TypeA, func(m *dns.Msg) { m.Question = append(m.Question, m.Question[0]) }), "other 1, FORMERR 1, in 1 out 1 took 1", ""},
		{"another opcode", query("yes.", dns.TypeSOA, func(m *dns.Msg) { m.Opcode = dns.OpcodeNotify }), "SOA 1, NOTIMP 1, in 1 out 1 took 1", ""},
		{"EDNS version 1", query("yes.", dns.TypeNS, edns(1232), func(m *dns.Msg) { m.IsEdns0().SetVersion(1) }), "NS 1, BADVERS 1, in 1 out 1 took 1", ""},
		{"a response", query("yes.", dns.TypeA, func(m *dns.Msg) { m.Response = true }), "in 0 out 0 took 0", ""},
	}
	for _, test := range tests {
		for proto, want := range map[Proto]string{UDP: test.udp, TCP: test.tcp} {
			t.Run(test.name+" over "+string(proto), func(t *testing.T) {
				if want == "" {
					want = test.udp
				}
				s, addr := start(t, cfg)
				dial(t, proto, addr).send(packed(t, test.query))
				queries := uint64(1)
				if test.query.Response {
					queries = 0
					for deadline := time.Now().Add(10 * time.Second); s.Stats().Dropped == 0 && time.Now().Before(deadline); {
						time.Sleep(time.Millisecond)
					}
				}
				got := trafficOf(t, s, proto, queries)
				if proto == TCP && want == "in 0 out 0 took 0" && got == "" {
					return // its connection is gone
				}
				if got != want {
					t.Errorf("counted %q, want %q", got, want)
				}
			})
		}
	}
}

// TestTrafficStays: the counts of removed listeners and closed connections are kept, and concurrent
// queries of many clients are each counted once.
func TestTrafficStays(t *testing.T) {
	s, addr := start(t, Config{Handler: fixed("yes. 60 A 192.0.2.1"), UDPSockets: 2, Wire: func(dst []byte, q *WireQuery) ([]byte, bool) {
		if q.Type() != dns.TypeAAAA {
			return dst, false
		}
		dst = append(dst, q.Msg...)
		dst[len(dst)-len(q.Msg)+2] |= 0x80
		return dst, true
	}})
	const clients, each = 8, 25
	done := make(chan bool)
	for i := range clients {
		go func() {
			defer func() { done <- true }()
			proto := []Proto{UDP, TCP}[i%2]
			c := dial(t, proto, addr)
			defer c.conn.Close()
			for n := range each {
				c.exchange(query("yes.", []uint16{dns.TypeA, dns.TypeAAAA}[n%2]))
			}
		}()
	}
	for range clients {
		<-done
	}
	if err := s.Listen(nil); err != nil {
		t.Fatal(err)
	}
	for _, proto := range slices.Sorted(maps.Keys(map[Proto]bool{UDP: true, TCP: true})) {
		const n = clients / 2 * each
		want := fmt.Sprintf("A %d, AAAA %d, NOERROR %d, in %d out %d took %d", clients/2*13, clients/2*12, n, n, n, n)
		if got := trafficOf(t, s, proto, n); got != want {
			t.Errorf("%s: counted %q, want %q", proto, got, want)
		}
	}
}

// TestKinds checks the table of types against the names.
func TestKinds(t *testing.T) {
	for qtype, kind := range kinds {
		if want := dns.TypeToString[uint16(qtype)]; kind > 0 && TypeNames[kind] != want {
			t.Errorf("type %d is counted as %s, want %s", qtype, TypeNames[kind], want)
		}
	}
	for i, name := range TypeNames[1:] {
		if kindOf(dns.StringToType[name]) != uint8(i+1) {
			t.Errorf("%s is not counted", name)
		}
	}
	for i, name := range RcodeNames[:rcodeOther] {
		if dns.RcodeToString[i] != name {
			t.Errorf("rcode %d is counted as %s, want %s", i, name, dns.RcodeToString[i])
		}
	}
}

func TestCountingAllocates(t *testing.T) {
	wire := packed(t, query("www.example.com.", dns.TypeA, edns(1232)))
	q, response := WireQuery{Msg: wire, End: questionEnd(wire)}, errorReply(wire, dns.RcodeSuccess)
	count, samples, now := newTraffic(UDP, anyPort.Addr()), make([]sample, 1), time.Now()
	if n := testing.AllocsPerRun(100, func() {
		samples[0] = q.sample().with(response)
		count.sent(now, samples)
		count.add(time.Millisecond, samples[0])
	}); n != 0 {
		t.Errorf("got %v allocations, want 0", n)
	}
}
