package dnstest

import (
	"net"
	"net/netip"
	"testing"
	"time"
)

// AskMany benchmarks one query to a nameserver over UDP. Each client keeps a window of queries in
// flight.
func AskMany(b *testing.B, server netip.AddrPort, query []byte) {
	const window = 16
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		conn, err := net.Dial("udp", server.String())
		if err != nil {
			b.Error(err)
			return
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(time.Minute))
		buf, owed := make([]byte, 4096), 0
		receive := func() {
			if _, err := conn.Read(buf); err != nil {
				b.Error(err)
			}
			owed--
		}
		for pb.Next() && !b.Failed() {
			if _, err := conn.Write(query); err != nil {
				b.Error(err)
			}
			if owed++; owed == window {
				receive()
			}
		}
		for owed > 0 && !b.Failed() {
			receive()
		}
	})
}
