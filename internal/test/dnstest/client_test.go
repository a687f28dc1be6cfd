package dnstest_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/test/dnstest"
)

// queryID is the ID of all queries here. sentinel is the name of a query sent after another: its
// response shows that the server has handled both.
const (
	queryID  = 0x4711
	sentinel = "sentinel.invalid."
	hour     = time.Hour
)

func newQuery(name string, qtype uint16, options ...dnstest.Option) *dns.Msg {
	query := new(dns.Msg).SetQuestion(name, qtype)
	query.Id = queryID
	for _, option := range options {
		option(query)
	}
	return query
}

func pack(t *testing.T, m *dns.Msg) []byte {
	t.Helper()
	wire, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return wire
}

// seenOverUDP sends query and describes everything that comes back, from any source. It shuts the
// server down to be sure that nothing follows.
func seenOverUDP(t *testing.T, server *dnstest.Server, query *dns.Msg) []string {
	t.Helper()
	server.SetFaultsFor(sentinel, dnstest.Faults{})
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)}) // not connected
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, m := range []*dns.Msg{query, newQuery(sentinel, dns.TypeA)} {
		if _, err := conn.WriteToUDPAddrPort(pack(t, m), server.Addr()); err != nil {
			t.Fatal(err)
		}
	}
	var seen []string
	note := func(wire []byte, from netip.AddrPort) (isSentinel bool) {
		text := describe(wire)
		if strings.Contains(text, sentinel) {
			return true
		}
		if from != server.Addr() {
			text = "wrong source: " + text
		}
		seen = append(seen, text)
		return false
	}
	buffer := make([]byte, 65535)
	for {
		_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
		n, from, err := conn.ReadFromUDPAddrPort(buffer)
		if err != nil {
			t.Fatalf("after %q: %v", seen, err)
		}
		if note(buffer[:n], from) {
			break
		}
	}
	_ = conn.SetReadDeadline(time.Time{})
	server.Down() // returns when everything is sent, which on loopback means that it has arrived
	for {
		n, from, more := receiveNow(t, conn, buffer)
		if !more {
			return seen
		}
		note(buffer[:n], from)
	}
}

// receiveNow reads a datagram that has already arrived.
func receiveNow(t *testing.T, conn *net.UDPConn, buffer []byte) (n int, from netip.AddrPort, more bool) {
	t.Helper()
	raw, err := conn.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	err = raw.Read(func(fd uintptr) bool {
		size, source, err := syscall.Recvfrom(int(fd), buffer, syscall.MSG_DONTWAIT)
		if err != nil {
			return true
		}
		v4 := source.(*syscall.SockaddrInet4)
		n, from, more = size, netip.AddrPortFrom(netip.AddrFrom4(v4.Addr), uint16(v4.Port)), true
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return n, from, more
}

// seenOverTCP sends query and describes the messages that come back, up to the number wanted, and
// then the state of the connection: "open" if it answers another query.
func seenOverTCP(t *testing.T, server *dnstest.Server, query *dns.Msg, want []string) []string {
	t.Helper()
	server.SetFaultsFor(sentinel, dnstest.Faults{})
	conn, err := net.Dial("tcp", server.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	writeFrame(t, conn, pack(t, query))
	last := len(want) - 1
	var seen []string
	for {
		if len(seen) == last && want[last] == "open" {
			writeFrame(t, conn, pack(t, newQuery(sentinel, dns.TypeA)))
		}
		wire, err := readFrame(conn)
		if err != nil {
			return append(seen, connectionEnd(t, err))
		}
		text := describe(wire)
		if strings.Contains(text, sentinel) {
			return append(seen, "open")
		}
		seen = append(seen, text)
	}
}

func writeFrame(t *testing.T, conn net.Conn, wire []byte) {
	t.Helper()
	if _, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(wire))), wire...)); err != nil {
		t.Fatal(err)
	}
}

func readFrame(conn net.Conn) ([]byte, error) {
	var size [2]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return nil, err
	}
	wire := make([]byte, binary.BigEndian.Uint16(size[:]))
	_, err := io.ReadFull(conn, wire)
	return wire, err
}

func connectionEnd(t *testing.T, err error) string {
	t.Helper()
	switch {
	case errors.Is(err, io.EOF):
		return "closed"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "closed in a message"
	case errors.Is(err, syscall.ECONNRESET):
		return "reset"
	}
	t.Fatalf("reading: %v", err)
	return ""
}

// describe formats what a client sees in a message: "wrong ID: NOERROR tc opt www.example.com. A =
// 192.0.2.80".
func describe(wire []byte) string {
	if len(wire) == 0 {
		return "empty"
	}
	m := new(dns.Msg)
	if err := m.Unpack(wire); err != nil {
		return fmt.Sprintf("malformed, ID %t", len(wire) >= 2 && binary.BigEndian.Uint16(wire) == queryID)
	}
	words := []string{dns.RcodeToString[m.Rcode]}
	if m.Id != queryID {
		words = append([]string{"wrong ID:"}, words...)
	}
	if m.Truncated {
		words = append(words, "tc")
	}
	if m.IsEdns0() != nil {
		words = append(words, "opt")
	}
	for _, question := range m.Question {
		words = append(words, question.Name, dns.Type(question.Qtype).String())
	}
	return strings.Join(append(words, data(m)...), " ")
}

func data(m *dns.Msg) []string {
	var words []string
	for i, section := range [][]dns.RR{m.Answer, m.Ns, m.Extra} {
		for _, rr := range section {
			if rr.Header().Rrtype == dns.TypeOPT {
				continue
			}
			fields := strings.Split(rr.String(), "\t")
			words = append(words, []string{"=", "authority", "additional"}[i], fields[len(fields)-1])
		}
	}
	return words
}
