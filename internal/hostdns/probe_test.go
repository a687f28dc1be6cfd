package hostdns

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// startNameserver starts a UDP server that replies to each query with the packets that answer
// returns.
func startNameserver(t *testing.T, network, address string, answer func(query []byte, number int) [][]byte) (netip.AddrPort, *atomic.Int32) {
	t.Helper()
	conn, err := net.ListenPacket(network, address)
	if err != nil {
		lab.Skip(t, "no %s here: %v", address, err)
	}
	var asked atomic.Int32
	done := make(chan struct{})
	t.Cleanup(func() { conn.Close(); <-done })
	go func() {
		defer close(done)
		buf := make([]byte, 512)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			for _, packet := range answer(append([]byte(nil), buf[:n]...), int(asked.Add(1))) {
				conn.WriteTo(packet, from) // the client may be gone
			}
		}
	}()
	return netip.MustParseAddrPort(conn.LocalAddr().String()), &asked
}

// respond sets QR and the RCODE, and keeps the ID and the question.
func respond(query []byte, rcode byte) []byte {
	query[2] |= 0x80
	query[3] = rcode
	return query
}

func otherID(packet []byte) []byte {
	packet = append([]byte(nil), packet...)
	packet[0] ^= 0xff
	return packet
}

// version answers version.bind with these strings.
func version(texts ...string) func(query []byte, number int) [][]byte {
	return func(query []byte, _ int) [][]byte { return [][]byte{answerTXT(query, texts...)} }
}

func answerTXT(query []byte, texts ...string) []byte {
	return withAnswer(query, &dnsmessage.TXTResource{TXT: texts})
}

func answerA(query []byte) []byte {
	return withAnswer(query, &dnsmessage.AResource{A: [4]byte{'n', 'o', 'd', 'e'}})
}

func withAnswer(query []byte, body dnsmessage.ResourceBody) []byte {
	var m dnsmessage.Message
	if err := m.Unpack(query); err != nil {
		panic(err)
	}
	m.Response = true
	m.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: m.Questions[0].Name, Class: dnsmessage.ClassCHAOS}, Body: body}}
	packet, err := m.Pack()
	if err != nil {
		panic(err)
	}
	return packet
}

func TestProbe(t *testing.T) {
	tests := []struct {
		name    string
		answer  func(query []byte, number int) [][]byte
		patient bool
		by      string // the name in the answer
		fails   string // end of the error; "" expects an answer
		asked   int32  // minimum number of queries
	}{
		{name: "it answers", asked: 1, answer: func(q []byte, _ int) [][]byte { return [][]byte{respond(q, 0)} }},
		{name: "REFUSED is an answer", patient: true, asked: 1, answer: func(q []byte, _ int) [][]byte { return [][]byte{respond(q, 5)} }},
		{name: "a header alone is an answer", patient: true, asked: 1, answer: func(q []byte, _ int) [][]byte { return [][]byte{append(respond(q, 1)[:4], 0, 0, 0, 0, 0, 0, 0, 0)} }},
		{name: "node-dns", by: "node-dns 1.0", asked: 1, answer: version("node-dns 1.0")},
		{name: "dnsmasq", by: "dnsmasq-2.90", asked: 1, answer: version("dnsmasq-2.90")},
		{name: "TXT with several strings", by: "node-dns 1.0", asked: 1, answer: version("node-dns", " 1.0")},
		{name: "no text", asked: 1, answer: version("")},
		{name: "line breaks, colors, non-ASCII text", by: "a[2Jb", asked: 1, answer: version(" a\n\x1b[2Jb\x00\xff\u00e9 ")},
		{name: "a long text", by: strings.Repeat("x", 64), asked: 1, answer: version(strings.Repeat("x", 200))},
		{name: "a record of another type", asked: 1, answer: func(q []byte, _ int) [][]byte { return [][]byte{answerA(q)} }},
		{name: "a truncated answer", asked: 1, answer: func(q []byte, _ int) [][]byte { r := answerTXT(q, "x"); return [][]byte{r[:len(r)-1]} }},
		{name: "silence", asked: 1, fails: "i/o timeout", answer: func([]byte, int) [][]byte { return nil }},
		{name: "another ID", asked: 1, fails: "i/o timeout", answer: func(q []byte, _ int) [][]byte { return [][]byte{otherID(respond(q, 0))} }},
		{name: "the query sent back", asked: 1, fails: "i/o timeout", answer: func(q []byte, _ int) [][]byte { return [][]byte{q} }},
		{name: "no message", asked: 1, fails: "i/o timeout", answer: func(q []byte, _ int) [][]byte { return [][]byte{{}, {q[0]}, {q[0], q[1], 0x80}} }},
		{
			name: "another ID, then the right one", patient: true, asked: 1,
			answer: func(q []byte, _ int) [][]byte { r := respond(q, 0); return [][]byte{otherID(r), {1}, r} },
		},
		{
			name: "retried after two lost answers", patient: true, asked: 3,
			answer: func(q []byte, number int) [][]byte {
				if number < 3 {
					return nil
				}
				return [][]byte{respond(q, 0)}
			},
		},
		{
			// On a busy node the daemon's answer comes late. There was only one try, with 150 ms.
			name: "a slow answer", asked: 2,
			answer: func(q []byte, number int) [][]byte {
				if number == 1 {
					return nil
				}
				time.Sleep(200 * time.Millisecond)
				return [][]byte{respond(q, 0)}
			},
		},
		{name: "no answer until the timeout", patient: true, asked: 2, fails: "i/o timeout", answer: func([]byte, int) [][]byte { return nil }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			addr, asked := startNameserver(t, "udp4", "127.0.0.1:0", test.answer)
			by, err := Probe(t.Context(), addr, test.patient)
			if checkProbe(t, addr, err, test.fails); by != test.by {
				t.Errorf("got the name %q, want %q", by, test.by)
			}
			if n := asked.Load(); n < test.asked {
				t.Errorf("got %d queries", n)
			}
		})
	}
}

func checkProbe(t *testing.T, addr netip.AddrPort, err error, fails string) {
	t.Helper()
	switch {
	case fails == "" && err != nil:
		t.Error(err)
	case fails != "" && (err == nil || err.Error() != addr.String()+" does not answer: "+fails):
		t.Errorf("got %v, want it to end in %q", err, fails)
	}
}

func TestProbeIPv6(t *testing.T) {
	addr, _ := startNameserver(t, "udp6", "[::1]:0", func(q []byte, _ int) [][]byte { return [][]byte{respond(q, 0)} })
	_, err := Probe(t.Context(), addr, true)
	checkProbe(t, addr, err, "")
}

// TestProbeClosedPort: a closed port fails at once, not after a timeout.
func TestProbeClosedPort(t *testing.T) {
	addr := closedPort(t)
	for _, patient := range []bool{false, true} {
		if _, err := Probe(t.Context(), addr, patient); !errors.Is(err, syscall.ECONNREFUSED) || strings.Count(err.Error(), addr.String()) != 1 {
			t.Errorf("patient %v: %v", patient, err)
		}
	}
}

func closedPort(t *testing.T) netip.AddrPort {
	t.Helper()
	conn, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return netip.MustParseAddrPort(conn.LocalAddr().String())
}

// TestProbeRestartingNameserver: the port is closed, and later the daemon is back.
func TestProbeRestartingNameserver(t *testing.T) {
	addr := closedPort(t)
	result := make(chan error, 1)
	go func() {
		_, err := Probe(t.Context(), addr, true)
		result <- err
	}()
	_, asked := startNameserver(t, "udp4", addr.String(), func(q []byte, _ int) [][]byte { return [][]byte{respond(q, 0)} })
	checkProbe(t, addr, <-result, "")
	if asked.Load() == 0 {
		t.Error("the nameserver was never queried")
	}
}

// TestProbeEndsWithContext: a probe of a silent nameserver takes 0.8 s, or less if the run has less
// time.
func TestProbeEndsWithContext(t *testing.T) {
	addr, _ := startNameserver(t, "udp4", "127.0.0.1:0", func([]byte, int) [][]byte { return nil })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := Probe(ctx, addr, true); err == nil || ctx.Err() == nil {
		t.Errorf("returned %v, context %v", err, ctx.Err())
	}
}
