package dnsserver

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// pair is a server socket with a batch, and a client socket.
type pair struct {
	t        *testing.T
	server   *net.UDPConn
	raw      syscall.RawConn
	client   *net.UDPConn
	batch    *batch
	room     room
	read     func(fd uintptr) bool
	received int
}

func newPair(t *testing.T, host string) *pair {
	t.Helper()
	server, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(host), 0)))
	if err != nil {
		lab.Skip(t, "no %s here: %v", host, err)
	}
	t.Cleanup(func() { server.Close() })
	p := &pair{t: t, server: server, batch: new(batch), room: room{n: 1}}
	if p.client, err = net.DialUDP("udp", nil, server.LocalAddr().(*net.UDPAddr)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.client.Close() })
	if p.raw, err = server.SyscallConn(); err != nil {
		t.Fatal(err)
	}
	p.batch.init()
	t.Cleanup(p.batch.release)
	p.read = func(fd uintptr) bool {
		var err error
		p.received, err = p.batch.receive(fd, false, &p.room)
		return !errors.Is(err, unix.EAGAIN)
	}
	return p
}

// receiveWaiting waits until the server socket is readable, and receives.
func (p *pair) receiveWaiting() int {
	p.t.Helper()
	p.server.SetReadDeadline(time.Now().Add(10 * time.Second))
	if err := p.raw.Read(p.read); err != nil {
		p.t.Fatal(err)
	}
	return p.received
}

// receive sends a query and receives it on the server.
func (p *pair) receive(query string) string {
	p.t.Helper()
	if _, err := p.client.Write([]byte(query)); err != nil {
		p.t.Fatal(err)
	}
	if n := p.receiveWaiting(); n != 1 {
		p.t.Fatalf("received %d messages, expected 1", n)
	}
	wire, client := p.batch.query(0)
	if want := p.client.LocalAddr().(*net.UDPAddr).AddrPort(); client != want {
		p.t.Errorf("client is %v, want %v", client, want)
	}
	return string(wire)
}

// TestBatch: waiting datagrams are received together, and the batch grows after a period of single
// receives.
func TestBatch(t *testing.T) {
	p := newPair(t, "127.0.0.1")
	const all = 1 + 4 + 16 + batchSize
	p.room.single = probe - 1
	for i := range all {
		if _, err := fmt.Fprintf(p.client, "query %02d", i); err != nil {
			t.Fatal(err)
		}
	}
	seen := 0
	for _, want := range []int{1, 4, 16, batchSize} {
		n := p.receiveWaiting()
		if n != want {
			t.Errorf("received %d, want %d", n, want)
		}
		for i := range n {
			if wire, _ := p.batch.query(i); string(wire) != fmt.Sprintf("query %02d", seen) {
				t.Errorf("received %q at %d", wire, seen)
			}
			seen++
		}
	}
}

// TestRoom: if queries arrive one by one, the batch requests one message, except for an occasional
// probe for more.
func TestRoom(t *testing.T) {
	p := newPair(t, "127.0.0.1")
	var rooms []int
	for range 2 * (probe + 1) {
		rooms = append(rooms, p.room.n)
		p.receive("query")
	}
	once := append(slices.Repeat([]int{1}, probe), 4)
	if want := slices.Concat(once, once); !slices.Equal(rooms, want) {
		t.Errorf("asked for %d, want %d", rooms, want)
	}
}

// TestSizes: a datagram is received complete, over IPv4 and IPv6, even after a longer or shorter
// one.
func TestSizes(t *testing.T) {
	for _, host := range []string{"127.0.0.1", "::1"} {
		t.Run(host, func(t *testing.T) {
			p := newPair(t, host)
			for _, size := range []int{0, 1, shortQuery, shortQuery + 1, 4096, 65507, 1, 300} {
				query := strings.Repeat("q", size)
				if got := p.receive(query); got != query {
					t.Errorf("received %d octets, want %d", len(got), size)
				}
			}
		})
	}
}

// TestSizesInOneBatch: long datagrams in one batch do not share memory.
func TestSizesInOneBatch(t *testing.T) {
	p := newPair(t, "127.0.0.1")
	p.room.n = batchSize
	var want []string
	for i, size := range []int{2000, 10, 3000, shortQuery, shortQuery + 1} {
		want = append(want, strings.Repeat(fmt.Sprint(i), size))
		if _, err := p.client.Write([]byte(want[i])); err != nil {
			t.Fatal(err)
		}
	}
	if n := p.receiveWaiting(); n != len(want) {
		t.Fatalf("received %d, want %d", n, len(want))
	}
	for i := range want {
		if wire, _ := p.batch.query(i); string(wire) != want[i] {
			t.Errorf("datagram %d has %d octets, want %d", i, len(wire), len(want[i]))
		}
	}
}

// TestWithoutRest: without memory for long queries, they are truncated.
func TestWithoutRest(t *testing.T) {
	p := newPair(t, "127.0.0.1")
	p.batch.release()
	if got := p.receive(strings.Repeat("q", 2*shortQuery)); len(got) != shortQuery {
		t.Errorf("received %d octets, want %d", len(got), shortQuery)
	}
}

func TestBatchAllocates(t *testing.T) {
	p := newPair(t, "127.0.0.1")
	query := []byte("query")
	if n := testing.AllocsPerRun(100, func() {
		if _, err := p.client.Write(query); err != nil {
			t.Fatal(err)
		}
		p.receiveWaiting()
		p.batch.query(0)
	}); n != 0 {
		t.Errorf("got %v allocations, want 0", n)
	}
}
