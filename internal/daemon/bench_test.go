package daemon

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dnstest"
)

// BenchmarkUDP is a query to the whole daemon through sockets on loopback and back, with its client's share: parsed, and
// with the way on the wire; a remembered answer beside them. Each client has a window of queries under way.
func BenchmarkUDP(b *testing.B) {
	site := dnstest.NewServer(b, siteRecords)
	d := still(b, "nodeName: node-7\nupstreams: [\""+site.Addr().String()+"\"]\n", bazaar())
	servers := twoServers(b, d)
	for _, bench := range []struct {
		name, ask string
		qtype     uint16
	}{
		{"A", "web.shop.svc.cluster.local.", dns.TypeA},
		{"SRV", "_http._tcp.web.shop.svc.cluster.local.", dns.TypeSRV},
		{"NXDOMAIN", "www.example.com.shop.svc.cluster.local.", dns.TypeA},
		{"cache hit", "www.example.com.", dns.TypeA},
	} {
		query := wireQuery(b, bench.ask, bench.qtype, func(m *dns.Msg) { m.SetEdns0(1232, false) })
		b.Run(bench.name+"/parsed", func(b *testing.B) { askMany(b, servers.parsed, query) })
		b.Run(bench.name+"/wire", func(b *testing.B) { askMany(b, servers.wire, query) })
	}
}

func askMany(b *testing.B, server netip.AddrPort, query []byte) {
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
