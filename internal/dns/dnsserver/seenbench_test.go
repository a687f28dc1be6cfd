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
	file, err := newUDPFile(conn)
	if err != nil {
		b.Fatal(err)
	}
	s := New(Config{Wire: func(dst []byte, q *WireQuery) ([]byte, bool) { return append(dst, q.Msg...), true }})
	u := s.newUDPSocket(file, anyPort)
	defer u.close()
	x := exchangeOf(packed(b, query("www.example.com.", dns.TypeA, edns(1232))))
	b.ReportAllocs()
	for b.Loop() {
		u.received(0, x.wire, x.client)
		u.out.empty()
	}
}
