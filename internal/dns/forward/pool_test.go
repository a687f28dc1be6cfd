package forward

import (
	"fmt"
	"math"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// A busyLane is a lane under load, in front of a nameserver that records the ports of its queries.
type busyLane struct {
	*lane
	t     *testing.T
	conn  *net.UDPConn // of the nameserver
	asked int

	recording sync.Mutex // guards ports
	ports     []uint16
}

func newBusyLane(t *testing.T) *busyLane {
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	b := &busyLane{t: t, conn: conn}
	var running sync.WaitGroup
	running.Go(b.serve)
	t.Cleanup(func() {
		conn.Close()
		running.Wait()
	})
	f := newForward(t, patient, nameserver.Server{Addr: conn.LocalAddr().(*net.UDPAddr).AddrPort()})
	lanes, err := f.open()
	if err != nil {
		t.Fatal(err)
	}
	b.lane = (*lanes)[0]
	b.setInside(true)
	return b
}

func (b *busyLane) serve() {
	buffer := make([]byte, 2048)
	for {
		n, client, err := b.conn.ReadFromUDPAddrPort(buffer)
		if err != nil {
			return
		}
		b.recording.Lock()
		b.ports = append(b.ports, client.Port())
		b.recording.Unlock()
		_, _ = b.conn.WriteToUDPAddrPort(answerTo(buffer[:n], trueAddr), client)
	}
}

// ask sends n queries, one after the other, and returns their ports. However slow this machine is,
// no port is too old for another query.
func (b *busyLane) ask(n int) []uint16 {
	b.t.Helper()
	b.recording.Lock()
	before := len(b.ports)
	b.recording.Unlock()
	for range n {
		b.eachIdle(func(s *socket) { s.since = time.Now() })
		if _, _, err := askFor(b.t, b.f, fmt.Sprintf("n%d.example.", b.asked), dns.TypeA); err != nil {
			b.t.Fatal(err)
		}
		b.asked++
	}
	b.recording.Lock()
	defer b.recording.Unlock()
	return b.ports[before:]
}

func (b *busyLane) eachIdle(do func(*socket)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, t := range b.idle[family(true)] {
		do(&t.socket)
	}
}

// guess returns the chance of an attacker who knows the ports of all earlier queries, and guesses
// that the next query has the port of the one k before, with the k that is best for the attacker.
func guess(ports []uint16) (chance float64) {
	for k := 1; k <= len(ports)/4; k++ {
		hits := 0
		for i := k; i < len(ports); i++ {
			if ports[i] == ports[i-k] {
				hits++
			}
		}
		chance = max(chance, float64(hits)/float64(len(ports)-k))
	}
	return chance
}

func mostUses(ports []uint16) (most int) {
	uses := map[uint16]int{}
	for _, port := range ports {
		uses[port]++
		most = max(most, uses[port])
	}
	return most
}

// TestPool: a busy lane draws the port of a query among minPool idle ones, so an attacker who knows
// the earlier ports guesses it with a chance of 1 in minPool. Four deviations are left to chance.
func TestPool(t *testing.T) {
	const queries = 4000
	b := newBusyLane(t)
	if first := b.ask(minPool); mostUses(first) > 2 { // by chance, the kernel draws the same port twice
		t.Errorf("a port was used %d times before the pool was full", mostUses(first))
	}
	ports := b.ask(queries)
	distinct := map[uint16]bool{}
	for _, port := range ports {
		distinct[port] = true
	}
	if len(distinct) < queries/portUses || len(distinct) > queries/2 {
		t.Errorf("%d queries came from %d ports", queries, len(distinct))
	}
	if got := mostUses(ports); got > 2*portUses { // likewise
		t.Errorf("a port was used %d times", got)
	}
	const mean = 1.0 / minPool
	got, most := guess(ports), mean+7*math.Sqrt(mean/queries)
	t.Logf("%d ports; the next port has %.1f bits for an attacker who knows the others", len(distinct), -math.Log2(got))
	if got > most {
		t.Errorf("the next port can be guessed with a chance of %.4f", got)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if open := len(b.slots); open > minPool+2 {
		t.Errorf("got %d sockets for one question at a time", open)
	}
}

// TestPoolForged: a port that got a message while it was idle serves no further query.
func TestPoolForged(t *testing.T) {
	b := newBusyLane(t)
	known := map[uint16]bool{}
	for _, port := range b.ask(2 * minPool) {
		known[port] = true
	}
	for port := range known {
		_, _ = b.conn.WriteToUDPAddrPort([]byte("forged"), netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port)) // some are closed
	}
	await(t, "all messages arrived", func() bool {
		isLeft := false
		b.eachIdle(func(s *socket) { isLeft = isLeft || s.to.IsValid() && s.uses < portUses })
		return !isLeft
	})
	again := 0
	for _, port := range b.ask(minPool) {
		if known[port] {
			again++
		}
	}
	if again > minPool/10 { // by chance, the kernel draws a known port: 512 of 28,232
		t.Errorf("%d queries came from ports that had got a message", again)
	}
}

// TestPoolEnds: a lane closes its sockets when it is no longer busy.
func TestPoolEnds(t *testing.T) {
	b := newBusyLane(t)
	b.ask(minPool)
	b.setInside(false)
	b.eachIdle(func(s *socket) { t.Errorf("socket %d is open", s.slot) })
	ports := b.ask(minPool)
	if got := mostUses(ports); got > 3 {
		t.Errorf("a lane that is not busy used a port %d times", got)
	}
	if open := len(b.slots) - len(b.free); open > 2 {
		t.Errorf("got %d sockets", open)
	}
}

// TestCanRepeat: a port serves another query only to the same server, a few times, while it is new,
// and if enough other ports could be drawn instead.
func TestCanRepeat(t *testing.T) {
	now, to := time.Now(), netip.MustParseAddrPort("192.0.2.53:53")
	for _, row := range []struct {
		name   string
		change func(*socket)
		want   bool
	}{
		{"last use at the last moment", func(*socket) {}, true},
		{"used often", func(s *socket) { s.uses++ }, false},
		{"old", func(s *socket) { s.since = s.since.Add(-1) }, false},
		{"other server", func(s *socket) { s.to = netip.MustParseAddrPort("192.0.2.54:53") }, false},
		{"no port", func(s *socket) { s.to = netip.AddrPort{} }, false},
		{"few idle sockets", func(s *socket) { s.mayRepeat = false }, false},
	} {
		s := socket{to: to, since: now.Add(1 - portLife), uses: portUses - 1, mayRepeat: true}
		row.change(&s)
		if got := s.canRepeat(to, now); got != row.want {
			t.Errorf("%s: got %v", row.name, got)
		}
	}
}

// TestKeepsPort: a port is released after its last use, after an invalid response, without an
// answer, and while the lane is not busy.
func TestKeepsPort(t *testing.T) {
	for _, row := range []struct {
		name   string
		change func(*try)
		want   bool
	}{
		{"last use but one", func(*try) {}, true},
		{"last use", func(t *try) { t.socket.uses++ }, false},
		{"invalid response", func(t *try) { t.strays++ }, false},
		{"no answer", func(t *try) { t.isAnswered = false }, false},
		{"lane that is not busy", func(t *try) { t.socket.mayRepeat = false }, false},
	} {
		tried := &try{socket: socket{mayRepeat: true, uses: portUses - 1}, isAnswered: true}
		row.change(tried)
		if got := tried.keepsPort(); got != row.want {
			t.Errorf("%s: got %v", row.name, got)
		}
	}
}
