package resolve

import (
	"bufio"
	"io"
	"net"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/test/dnstest"
)

// BenchmarkUDP measures a query through a server and the complete list over loopback sockets:
// parsed, and on the fast path, with cached answers for comparison. Each client has a window of
// queries in flight.
func BenchmarkUDP(b *testing.B) {
	site := dnstest.NewServer(b, siteRecords)
	r := still(b, "nodeName: node-7\nupstreams: [\""+site.Addr().String()+"\"]\n", bazaar())
	servers := twoServers(b, r)
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
		b.Run(bench.name+"/parsed", func(b *testing.B) { dnstest.AskMany(b, servers.parsed, query) })
		b.Run(bench.name+"/wire", func(b *testing.B) { dnstest.AskMany(b, servers.wire, query) })
	}
}

// BenchmarkTCP is the same over a persistent connection with as many queries in flight.
func BenchmarkTCP(b *testing.B) {
	site := dnstest.NewServer(b, siteRecords)
	server := twoServers(b, still(b, "nodeName: node-7\nupstreams: [\""+site.Addr().String()+"\"]\n", bazaar())).wire
	for _, bench := range []struct{ name, ask string }{{"A", "web.shop.svc.cluster.local."}, {"cache hit", "www.example.com."}} {
		query := wireQuery(b, bench.ask, dns.TypeA)
		query = append([]byte{byte(len(query) >> 8), byte(len(query))}, query...)
		b.Run(bench.name, func(b *testing.B) { askOver(b, server, query) })
	}
}

// askOver keeps a window of queries in flight on one connection.
func askOver(b *testing.B, server netip.AddrPort, query []byte) {
	const window = 16
	conn, err := net.Dial("tcp", server.String())
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Minute))
	in, buf := bufio.NewReader(conn), make([]byte, 4096)
	receive := func() {
		if _, err := io.ReadFull(in, buf[:2]); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(in, buf[:int(buf[0])<<8|int(buf[1])]); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		if _, err := conn.Write(query); err != nil {
			b.Fatal(err)
		}
		if i >= window {
			receive()
		}
	}
	for range min(window, b.N) {
		receive()
	}
}

// BenchmarkMiss measures a cache miss through the complete list to a nameserver on loopback and
// back. The client and the nameserver do not allocate.
func BenchmarkMiss(b *testing.B) {
	processors := runtime.GOMAXPROCS(0)
	runtime.GOMAXPROCS(processors + 2)
	b.Cleanup(func() { runtime.GOMAXPROCS(processors) })
	site := parrot(b)
	r := stillOn(b, 1, "nodeName: node-7\nupstreams: [\""+site.String()+"\"]\n", "", bazaar())
	conn, err := net.Dial("udp", twoServers(b, r).wire.String())
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Minute))
	query, n, buf := wireQuery(b, "n0000000.example.com.", dns.TypeA, func(m *dns.Msg) { m.SetEdns0(1232, false) }), 0, make([]byte, 512)
	next := func() {
		for i, rest := 0, n; i < 7; i, rest = i+1, rest/10 {
			query[20-i] = '0' + byte(rest%10)
		}
		if _, err := conn.Write(query); err != nil {
			b.Fatal(err)
		}
		n++
	}
	receive := func() {
		if size, err := conn.Read(buf); err != nil || rcodeOf(buf[:size]) != dns.RcodeSuccess {
			b.Fatalf("%x, %v", buf[:size], err)
		}
	}
	const window = 16
	for range 12_000 { // until the cache is full
		next()
		receive()
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		if next(); i >= window {
			receive()
		}
	}
	for range min(window, b.N) {
		receive()
	}
}

// parrot starts a nameserver that has an address for every name.
func parrot(b *testing.B) netip.AddrPort {
	conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:0")))
	if err != nil {
		b.Fatal(err)
	}
	done := make(chan struct{})
	b.Cleanup(func() {
		conn.Close()
		<-done
	})
	go func() {
		defer close(done)
		buf := make([]byte, 512)
		for {
			n, client, err := conn.ReadFromUDPAddrPort(buf)
			if err != nil {
				return
			}
			buf[2], buf[3], buf[7], buf[11] = 0x80, 0x80, 1, 0
			response := append(buf[:n-11], 0xc0, 12, 0, 1, 0, 1, 0, 0, 2, 88, 0, 4, 192, 0, 2, 80)
			if _, err := conn.WriteToUDPAddrPort(response, client); err != nil {
				return
			}
		}
	}()
	return conn.LocalAddr().(*net.UDPAddr).AddrPort()
}
