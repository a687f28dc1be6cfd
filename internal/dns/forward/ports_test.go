package forward

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"testing"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/dns/exchange"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/sys/rawsock"
	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// TestPorts: questions to any server leave from ports in the range, and from a new one each time.
func TestPorts(t *testing.T) {
	six, err := dnstest.StartAt(netip.MustParseAddrPort("[::1]:0"), world)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(six.Close)
	four, addresses := startServers(t, 1)
	bound := addresses[0]
	bound.Source, bound.Interface = netip.MustParseAddr("127.0.0.77"), "lo"
	rows := []struct {
		name   string
		server *dnstest.Server
		to     nameserver.Server
	}{
		{"IPv4", four[0], addresses[0]},
		{"IPv6", six, plain(six)},
		{"source address and interface", four[0], bound},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			if err := exchange.MayBind(row.to); errors.Is(err, unix.EPERM) {
				lab.Skip(t, "needs Linux 5.7, or CAP_NET_RAW: %v", err)
			}
			f := newForward(t, patient, row.to)
			f.SetUDP(exchange.UDP{Low: 20000, High: 22047})
			before := len(row.server.Received())
			for i := range 50 {
				if _, _, err := askFor(t, f, fmt.Sprintf("x%d.example.", i), dns.TypeA); err != nil {
					t.Fatal(err)
				}
			}
			ports := map[uint16]bool{}
			for _, q := range row.server.Received()[before:] {
				ports[q.Client.Port()] = true
				if q.Client.Port() < 20000 || q.Client.Port() > 22047 || row.to.Source.IsValid() && q.Client.Addr() != row.to.Source {
					t.Errorf("got a query from %v", q.Client)
				}
			}
			if len(ports) < 40 { // expected are 49.4 of 50
				t.Errorf("got only %d ports", len(ports))
			}
		})
	}
}

// TestPortsHeld: a port held by another program is skipped. If all ports are held, the question is
// shed and no server is blamed.
func TestPortsHeld(t *testing.T) {
	low := firstOfTwoFree(t)
	hold := func(port uint16) *net.UDPConn {
		t.Helper()
		var conn *net.UDPConn
		await(t, "the port", func() (ok bool) { // the socket of a question closes after the client got its answer
			var err error
			conn, err = net.ListenUDP("udp", &net.UDPAddr{Port: int(port)})
			return err == nil
		})
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	_, addresses := startServers(t, 1)
	f := newForward(t, func(c *Config) { patient(c); c.UDP = exchange.UDP{Low: low, High: low + 1} }, addresses...)
	hold(low)
	mustAnswer(t, f)
	other := hold(low + 1)
	_, _, err := askFor(t, f, "www.example.", dns.TypeA)
	if !errors.Is(err, ErrShed) || !strings.Contains(err.Error(), exchange.ErrNoPort.Error()) {
		t.Errorf("no free port: got error %v", err)
	}
	if s := stateOf(f, addresses[0]); s.State == exchange.Down {
		t.Errorf("a lack of ports was blamed on the server: %+v", s)
	}
	other.Close()
	mustAnswer(t, f)
}

// TestPortsDenied: a port that we may not bind is skipped. SELinux reserves ports of the range for
// other services; here the kernel reserves those below 1024. Under RHEL's policy with max-port set,
// about 2 % of questions failed and counted against the server.
func TestPortsDenied(t *testing.T) {
	_, addresses := startServers(t, 1)
	udp := exchange.UDP{Low: 980, High: 1067}
	done := make(chan struct{})
	reserves := true
	go func() {
		defer close(done)
		runtime.LockOSThread() // the thread, which loses its capability, ends with this goroutine
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var caps [2]unix.CapUserData
		if err := unix.Capget(&header, &caps[0]); err != nil {
			t.Error(err)
			return
		}
		caps[0].Effective &^= 1 << unix.CAP_NET_BIND_SERVICE
		if err := unix.Capset(&header, &caps[0]); err != nil {
			t.Error(err)
			return
		}
		if conn, err := net.ListenUDP("udp", &net.UDPAddr{Port: int(udp.Low)}); err == nil {
			conn.Close()
			reserves = false
			return
		}
		for range 50 {
			conn, err := exchange.DialUDP(t.Context(), addresses[0], udp)
			if err != nil {
				t.Errorf("without a lane: %v", err)
				return
			}
			conn.Close()
			fd, err := rawsock.OpenUDP(true)
			if err != nil {
				t.Error(err)
				return
			}
			if err := exchange.Bind(fd, addresses[0], udp); err != nil {
				t.Errorf("in a lane: %v", err)
			}
			rawsock.Close(fd)
		}
	}()
	<-done
	if !reserves {
		lab.Skip(t, "this host reserves no ports: net.ipv4.ip_unprivileged_port_start")
	}
}

// firstOfTwoFree returns a free port whose successor is free as well.
func firstOfTwoFree(t *testing.T) uint16 {
	t.Helper()
	for port := uint16(61001); port < 65535; port += 2 { // above the default range of the kernel
		first, err := net.ListenUDP("udp", &net.UDPAddr{Port: int(port)})
		if err != nil {
			continue
		}
		second, err := net.ListenUDP("udp", &net.UDPAddr{Port: int(port) + 1})
		first.Close()
		if err == nil {
			second.Close()
			return port
		}
	}
	t.Fatal("no two ports are free")
	return 0
}

// TestUDPSize: queries request the configured size, and a response that fits it arrives whole over
// UDP.
func TestUDPSize(t *testing.T) {
	rows := []struct {
		size    uint16
		overTCP bool
	}{{0, true}, {512, true}, {4096, false}}
	for _, row := range rows {
		t.Run(fmt.Sprint(row.size), func(t *testing.T) {
			server := dnstest.NewServer(t, texts("big.example.", 14)) // 3600 bytes
			f := newForward(t, func(c *Config) { patient(c); c.UDP = exchange.UDP{Size: row.size} }, plain(server))
			m, _, err := askFor(t, f, "big.example.", dns.TypeTXT)
			if err != nil || len(m.Answer) != 14 {
				t.Fatalf("%v, %v", m, err)
			}
			for i, q := range server.Received() {
				opt := q.Msg.IsEdns0()
				want := row.size
				if want == 0 {
					want = exchange.DefaultUDPSize
				}
				if opt == nil || opt.UDPSize() != want || (q.Network == "tcp") != (i == 1) {
					t.Errorf("%s: %v", q.Network, opt)
				}
			}
			if over := len(server.Received()) == 2; over != row.overTCP {
				t.Errorf("got queries over TCP: %v", over)
			}
		})
	}
}

// texts returns n records of 250 bytes each.
func texts(name string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%s 300 IN TXT \"%s%d\"\n", name, strings.Repeat("x", 240), i)
	}
	return b.String()
}
