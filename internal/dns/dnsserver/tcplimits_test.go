package dnsserver

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"
)

// TestTenThousandIdle: with 10,000 idle connections, new clients are served over TCP and UDP, and
// no more than MaxTCP connections are kept.
func TestTenThousandIdle(t *testing.T) {
	idle := 10_000
	if testing.Short() {
		idle = 3_000
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if room := int(limit.Cur) - 2000; room < idle { // the server's ends belong to this process too
		idle = room
		t.Logf("this process may open only %d files: testing with %d idle connections", limit.Cur, idle)
	}
	// The timeouts exceed the test, so connections are closed only because of the limit.
	s, addr := start(t, Config{Handler: fixed("www.example.com. A 192.0.2.80"), FirstQuery: time.Hour, Idle: time.Hour})
	const perClient = 50
	for i := range idle {
		from(t, fmt.Sprintf("127.1.%d.%d", i/perClient/250, i/perClient%250+1), TCP, addr)
	}
	for s.Stats().TCPAccepted < uint64(idle) {
		time.Sleep(time.Millisecond)
	}
	if got := s.Stats(); got.TCPEvicted != uint64(idle-1000) || got.TCPRejected != 0 {
		t.Errorf("got stats %+v", got)
	}
	for i := range 10 {
		for _, proto := range []Proto{TCP, UDP} {
			if r := from(t, fmt.Sprintf("127.2.0.%d", i+1), proto, addr).exchange(query("www.example.com.", dns.TypeA)); r.Rcode != dns.RcodeSuccess {
				t.Errorf("client %d over %s: %v", i, proto, r)
			}
		}
	}
	for s.Stats().TCPOpen > 1000 {
		time.Sleep(time.Millisecond) // connections that were closed for others are still ending
	}
}

// TestSlowReadersGo: connections whose clients do not read their responses make room for a new one.
func TestSlowReadersGo(t *testing.T) {
	const room = 4
	s, addr := start(t, Config{
		MaxTCP: room, Write: time.Hour,
		Handler: fixed("www.example.com. TXT" + strings.Repeat(" "+strings.Repeat("x", 255), 240)), // 61 KB
	})
	wire := frame(t, query("www.example.com.", dns.TypeA))
	for i := range room {
		slow := from(t, fmt.Sprintf("127.0.0.%d", i+2), TCP, addr)
		go func() { // more than all buffers on the path hold
			for {
				if _, err := slow.conn.Write(wire); err != nil {
					return
				}
			}
		}()
	}
	for { // until all of them wait for their clients
		s.conns.mu.Lock()
		stuck := 0
		for c := range s.conns.conns {
			if c.mayGo() && c.isStuck() {
				stuck++
			}
		}
		s.conns.mu.Unlock()
		if stuck == room {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	for i := range room {
		r := from(t, fmt.Sprintf("127.0.1.%d", i+1), TCP, addr).exchange(query("www.example.com.", dns.TypeA))
		if r.Rcode != dns.RcodeSuccess {
			t.Errorf("got %v", r.MsgHdr)
		}
	}
	if got := s.Stats(); got.TCPEvicted != room || got.TCPRejected != 0 {
		t.Errorf("got stats %+v", got)
	}
}

// TestStrangersConnections: all clients that are not allowed share the connection limit of one
// client, so that allowed clients have room.
func TestStrangersConnections(t *testing.T) {
	s, addr := start(t, Config{
		Handler: fixed("www.example.com. A 192.0.2.80"), Access: &Access{Clients: networks("127.0.0.1/32")},
		MaxTCP: 20, MaxTCPPerClient: 5, FirstQuery: time.Hour, Idle: time.Hour,
	})
	client := dial(t, TCP, addr)
	for i := range 40 {
		from(t, fmt.Sprintf("127.3.0.%d", i+1), TCP, addr)
	}
	for s.Stats().TCPAccepted < 41 {
		time.Sleep(time.Millisecond)
	}
	for s.Stats().TCPOpen > 6 {
		time.Sleep(time.Millisecond)
	}
	if r := client.exchange(query("www.example.com.", dns.TypeA)); r.Rcode != dns.RcodeSuccess {
		t.Errorf("the earlier client: %v", r)
	}
}

// isAlone reports whether the test runs in a process of its own. If not, it runs the test in one.
func isAlone(t *testing.T) bool {
	t.Helper()
	const variable = "NODEDNS_SERVER_ALONE"
	if os.Getenv(variable) == t.Name() {
		return true
	}
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command(self, "-test.run=^"+t.Name()+"$", "-test.timeout=1m")
	child.Env = append(os.Environ(), variable+"="+t.Name())
	if out, err := child.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	return false
}

// TestNoDescriptorForConnections runs in a process of its own that has no file descriptors left.
// New connections are closed at once and do not wait. UDP and the open connections are served.
// Everything works again when descriptors are available.
func TestNoDescriptorForConnections(t *testing.T) {
	if !isAlone(t) {
		return
	}
	s, addr := start(t, Config{Handler: fixed("www.example.com. A 192.0.2.80"), FirstQuery: time.Hour, Idle: time.Hour})
	ask := query("www.example.com.", dns.TypeA)
	udp, tcp := dial(t, UDP, addr), dial(t, TCP, addr)
	udp.exchange(ask)
	tcp.exchange(ask)

	const ours = 8 // client ends of connections that this process opens below
	var ends []int
	for range ours {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, fd)
	}
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	// The lowest free descriptor is the first one refused, wherever the others are.
	free, err := unix.FcntlInt(uintptr(ends[0]), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(free)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(free), Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	for i, fd := range ends {
		at := unix.SockaddrInet4{Addr: addr.Addr().As4(), Port: int(addr.Port())}
		if err := unix.Connect(fd, &at); err != nil {
			t.Fatal(err)
		}
		if n, err := unix.Read(fd, make([]byte, 1)); n != 0 { // blocks until the server closes
			t.Errorf("connection %d: %d, %v", i, n, err)
		}
		for _, c := range []*client{udp, tcp} {
			if r := c.exchange(ask); r.Rcode != dns.RcodeSuccess {
				t.Errorf("on an open connection: %v", r)
			}
		}
	}
	for s.Stats().TCPStarved < ours { // they are counted when no more arrive
		time.Sleep(time.Millisecond)
	}
	if got := s.Stats(); got.TCPStarved != ours || got.TCPOpen != 1 {
		t.Errorf("got stats %+v", got)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	// A connection may still arrive before the server notices free descriptors.
	for !alive(dial(t, TCP, addr), packed(t, ask)) {
		time.Sleep(time.Millisecond)
	}
	for _, fd := range ends {
		unix.Close(fd)
	}
}
