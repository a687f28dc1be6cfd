package dnsserver

import (
	"net"
	"testing"

	"github.com/miekg/dns"
)

// BenchmarkReceived measures a datagram that Wire answers, without system calls and without a
// Watch.
func BenchmarkReceived(b *testing.B) {
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		b.Fatal(err)
	}
	s := New(Config{Wire: func(dst []byte, q *WireQuery) ([]byte, bool) { return append(dst, q.Msg...), true }})
	u := newLoneSocket(b, s, conn)
	x := exchangeOf(packed(b, query("www.example.com.", dns.TypeA, edns(1232))))
	b.ReportAllocs()
	for b.Loop() {
		u.received(0, x.wire, x.client)
		u.out.empty()
	}
}

// newLoneSocket returns a server's socket without a receiver.
func newLoneSocket(t testing.TB, s *Server, conn *net.UDPConn) *udpSocket {
	t.Helper()
	file, err := newUDPFile(conn)
	if err != nil {
		t.Fatal(err)
	}
	u := s.newUDPSocket(file, conn.LocalAddr().(*net.UDPAddr).AddrPort())
	u.workspace = newWorkspace()
	t.Cleanup(func() {
		u.close()
		u.in.release()
	})
	return u
}
