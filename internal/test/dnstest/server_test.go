package dnstest_test

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// TestDownAndUp: a server that is down refuses like a closed port, and comes back at the same
// address.
func TestDownAndUp(t *testing.T) {
	server := dnstest.NewServer(t, world)
	addr := server.Addr()
	for range 20 {
		dnstest.Exchange(t, addr, "www.example.com", dns.TypeA)
		dnstest.ExchangeTCP(t, addr, "www.example.com", dns.TypeA)
		server.Down()
		server.Down()
		for _, network := range []string{"udp", "tcp"} {
			client := dns.Client{Net: network, Timeout: 10 * time.Second}
			_, _, err := client.Exchange(newQuery("www.example.com.", dns.TypeA), addr.String())
			if !errors.Is(err, syscall.ECONNREFUSED) {
				t.Fatalf("%s while down: %v", network, err)
			}
		}
		if server.Addr() != addr {
			t.Fatalf("address changed from %s to %s", addr, server.Addr())
		}
		for range 2 {
			if err := server.Up(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := server.Queries(); n != 40 {
		t.Errorf("%d queries counted, want 40", n)
	}
	server.Close()
	server.Close()
	if err := server.Up(); !errors.Is(err, dnstest.ErrClosed) {
		t.Errorf("up after close: %v", err)
	}
}

// TestDownHoldsThePort: a free port became the ephemeral port of the client that queried it, which
// then talked to itself instead of being refused. Its closed connection then kept Up from binding
// the port for a minute.
func TestDownHoldsThePort(t *testing.T) {
	for _, text := range []string{"127.0.0.1:0", "[::1]:0"} {
		t.Run(text, func(t *testing.T) {
			server, err := dnstest.StartAt(netip.MustParseAddrPort(text), world)
			if errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, syscall.EAFNOSUPPORT) {
				lab.Skip(t, "this machine has no such address: %v", err)
			}
			if err != nil {
				t.Fatal(err)
			}
			defer server.Close()
			server.Down()
			addr := server.Addr()
			if socket, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(addr)); err == nil {
				socket.Close()
				t.Error("the UDP port is free")
			}
			self := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(addr)}
			if conn, err := self.Dial("tcp", addr.String()); err == nil {
				conn.Close()
				t.Error("the TCP port is free")
			}
			for range 2 {
				if err := server.Up(); err != nil {
					t.Fatal(err)
				}
				dnstest.Exchange(t, addr, "www.example.com", dns.TypeA)
				dnstest.ExchangeTCP(t, addr, "www.example.com", dns.TypeA)
				server.RefuseTCP()
				server.Down()
			}
		})
	}
}

func TestStartAtATakenPort(t *testing.T) {
	first := dnstest.NewServer(t, "")
	if _, err := dnstest.StartAt(first.Addr(), ""); !errors.Is(err, syscall.EADDRINUSE) {
		t.Fatalf("TCP taken: %v", err)
	}
	// Free for both after Close; a port that is free only for UDP may belong to a closed
	// connection.
	addr := first.Addr()
	first.Close()
	socket, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(addr))
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	if _, err := dnstest.StartAt(addr, ""); !errors.Is(err, syscall.EADDRINUSE) {
		t.Fatalf("UDP taken: %v", err)
	}
	listener, err := net.Listen("tcp4", addr.String())
	if err != nil {
		t.Fatalf("the TCP port was not released: %v", err)
	}
	listener.Close()
}

func TestStartAtOtherAddresses(t *testing.T) {
	for _, text := range []string{"127.0.0.53:0", "[::1]:0"} {
		t.Run(text, func(t *testing.T) {
			server, err := dnstest.StartAt(netip.MustParseAddrPort(text), world)
			if errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, syscall.EAFNOSUPPORT) {
				lab.Skip(t, "this machine has no such address: %v", err)
			}
			if err != nil {
				t.Fatal(err)
			}
			defer server.Close()
			if server.Addr().Port() == 0 || server.Addr().Addr() != netip.MustParseAddrPort(text).Addr() {
				t.Errorf("address %s", server.Addr())
			}
			dnstest.Exchange(t, server.Addr(), "www.example.com", dns.TypeA)
			dnstest.ExchangeTCP(t, server.Addr(), "www.example.com", dns.TypeA)
		})
	}
}

func TestSetRecords(t *testing.T) {
	server := dnstest.NewServer(t, world)
	server.SetRecords("www.example.com. 5 A 192.0.2.81")
	if diff := dnstest.Diff("www.example.com. 5 A 192.0.2.81", dnstest.Exchange(t, server.Addr(), "www.example.com", dns.TypeA)); diff != "" {
		t.Error(diff)
	}
	server.SetRecords("")
	if got := dnstest.Exchange(t, server.Addr(), "www.example.com", dns.TypeA); got.Rcode != dns.RcodeNameError {
		t.Errorf("without records:\n%s", got)
	}
}

func TestRefuseTCP(t *testing.T) {
	server := dnstest.NewServer(t, world)
	standing, err := net.Dial("tcp", server.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer standing.Close()
	writeFrame(t, standing, pack(t, newQuery("www.example.com.", dns.TypeA)))
	if _, err := readFrame(standing); err != nil {
		t.Fatal(err)
	}
	server.RefuseTCP()
	if _, err := readFrame(standing); err == nil {
		t.Error("the existing connection is still open")
	}
	if _, err := net.Dial("tcp", server.Addr().String()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a new connection: %v", err)
	}
	dnstest.Exchange(t, server.Addr(), "www.example.com", dns.TypeA)
	server.Down()
	if err := server.Up(); err != nil {
		t.Fatal(err)
	}
	dnstest.ExchangeTCP(t, server.Addr(), "www.example.com", dns.TypeA)
}

func TestCloseConnections(t *testing.T) {
	server := dnstest.NewServer(t, world)
	conn, err := net.Dial("tcp", server.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	writeFrame(t, conn, pack(t, newQuery("www.example.com.", dns.TypeA)))
	if _, err := readFrame(conn); err != nil {
		t.Fatal(err)
	}
	server.CloseConnections()
	if _, err := readFrame(conn); err == nil || connectionEnd(t, err) != "closed" {
		t.Errorf("reading: %v", err)
	}
	dnstest.ExchangeTCP(t, server.Addr(), "www.example.com", dns.TypeA)
}

func TestCounts(t *testing.T) {
	server := dnstest.NewServer(t, world)
	server.SetFaultsFor("www.example.com", dnstest.Faults{Rcode: dns.RcodeRefused})
	dnstest.Exchange(t, server.Addr(), "www.example.com", dns.TypeA, dnstest.DO())
	dnstest.Exchange(t, server.Addr(), "WWW.example.com", dns.TypeA)
	dnstest.ExchangeTCP(t, server.Addr(), "www.example.com", dns.TypeAAAA)
	dnstest.Exchange(t, server.Addr(), "nx.example.com", dns.TypeA)
	for _, test := range []struct {
		name  string
		qtype uint16
		want  int
	}{
		{"www.example.com", dns.TypeA, 2},
		{"Www.example.com.", dns.TypeAAAA, 1},
		{"www.example.com", dns.TypeNone, 3},
		{"nx.example.com", dns.TypeA, 1},
		{"nx.example.com", dns.TypeAAAA, 0},
		{"example.com", dns.TypeNone, 0},
	} {
		if got := server.QueriesFor(test.name, test.qtype); got != test.want {
			t.Errorf("%s %s: %d queries, want %d", test.name, dns.Type(test.qtype), got, test.want)
		}
	}
	seen := server.Received()
	if len(seen) != 4 || server.Queries() != 4 {
		t.Fatalf("%d queries kept, %d counted", len(seen), server.Queries())
	}
	if opt := seen[0].Msg.IsEdns0(); opt == nil || !opt.Do() || seen[1].Msg.Question[0].Name != "WWW.example.com." {
		t.Errorf("the queries differ from those sent:\n%s\n%s", seen[0].Msg, seen[1].Msg)
	}
	if seen[0].Network != "udp" || seen[2].Network != "tcp" || seen[0].Client == seen[1].Client {
		t.Errorf("clients: %s %s, %s %s", seen[0].Network, seen[0].Client, seen[1].Network, seen[1].Client)
	}
}

// TestManyClients sends queries, sets faults and reads counts concurrently, for the race detector,
// and then checks the counts.
func TestManyClients(t *testing.T) {
	const clients, each = 20, 50
	server := dnstest.NewServer(t, world)
	var group sync.WaitGroup
	for client := range clients {
		group.Go(func() {
			for range each {
				asker := dns.Client{Net: []string{"udp", "tcp"}[client%2], Timeout: 10 * time.Second}
				if _, _, err := asker.Exchange(newQuery("www.example.com.", dns.TypeA), server.Addr().String()); err != nil {
					t.Error(err)
				}
				server.SetFaults(dnstest.Faults{First: 1, Delay: time.Microsecond})
				server.SetFaultsFor("other.example.com", dnstest.Faults{Drop: true})
				server.SetRecords(world)
				server.QueriesFor("www.example.com", dns.TypeNone)
			}
		})
	}
	group.Wait()
	if n := server.Queries(); n != clients*each {
		t.Errorf("%d queries counted, want %d", n, clients*each)
	}
}
