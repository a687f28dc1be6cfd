package inflight

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// pair is a socket with a Receiver, and a client of it.
type pair struct {
	t        *testing.T
	server   *net.UDPConn
	raw      syscall.RawConn
	client   *net.UDPConn
	receiver *Receiver
	read     func(fd uintptr) bool
	received int
}

func newPair(t *testing.T, l *Log, host string) *pair {
	t.Helper()
	server, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(host), 0)))
	if err != nil {
		lab.Skip(t, "no %s here: %v", host, err)
	}
	t.Cleanup(func() { server.Close() })
	p := &pair{t: t, server: server}
	if p.client, err = net.DialUDP("udp", nil, server.LocalAddr().(*net.UDPAddr)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.client.Close() })
	if p.raw, err = server.SyscallConn(); err != nil {
		t.Fatal(err)
	}
	p.receiver = l.Receive(p.local())
	p.read = func(fd uintptr) bool {
		var err error
		p.received, err = p.receiver.Receive(fd, false)
		return !errors.Is(err, unix.EAGAIN)
	}
	return p
}

// receiveWaiting receives what waits, once something does.
func (p *pair) receiveWaiting() int {
	p.t.Helper()
	p.server.SetReadDeadline(time.Now().Add(10 * time.Second))
	if err := p.raw.Read(p.read); err != nil {
		p.t.Fatal(err)
	}
	return p.received
}

// hold puts what was received aside.
func (p *pair) hold() Held {
	_, held := p.receiver.Hold(0)
	return held
}

func (p *pair) local() netip.AddrPort { return p.server.LocalAddr().(*net.UDPAddr).AddrPort() }

// receive sends a query and receives it.
func (p *pair) receive(query string) string {
	p.t.Helper()
	if _, err := p.client.Write([]byte(query)); err != nil {
		p.t.Fatal(err)
	}
	if n := p.receiveWaiting(); n != 1 {
		p.t.Fatalf("received %d messages, expected 1", n)
	}
	wire, client := p.receiver.Query(0)
	if want := p.client.LocalAddr().(*net.UDPAddr).AddrPort(); client != want {
		p.t.Errorf("came from %v, expected %v", client, want)
	}
	return string(wire)
}

// newLog is a Log, and what an earlier process has left in it, as a next one finds it.
func newLog(t *testing.T) (l *Log, next func() []Left) {
	t.Helper()
	l, file, err := Create()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close(); l.Close() })
	return l, func() []Left {
		t.Helper()
		again, err := Open(file)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { again.Close() })
		return again.Left(nil)
	}
}

// reopened is the Log in a file as a next process finds it now: this one goes on with its own.
func reopened(t *testing.T, file *os.File) *Log {
	t.Helper()
	copied, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer copied.Close()
	if _, err := io.Copy(copied, io.NewSectionReader(file, 0, int64(size))); err != nil {
		t.Fatal(err)
	}
	again, err := Open(copied)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { again.Close() })
	return again
}

func wires(all []Left) []string {
	var texts []string
	for _, q := range all {
		texts = append(texts, string(q.Wire))
	}
	slices.Sort(texts)
	return texts
}

// TestLeft: what is received and not Done is left to the next process, with where it came from and came in, until that has
// it Done.
func TestLeft(t *testing.T) {
	for _, host := range []string{"127.0.0.1", "::1"} {
		l, next := newLog(t)
		p := newPair(t, l, host)
		for i := range 6 {
			text := fmt.Sprintf("query %d", i)
			if got := p.receive(text); got != text {
				t.Errorf("received %q, expected %q", got, text)
			}
			switch i {
			case 0:
				p.receiver.Done()
			case 1:
				p.hold().Done()
			case 2, 3:
				p.hold()
			case 4: // forgotten: the next takes its place
			}
		}
		left := next()
		if got, want := wires(left), []string{"query 2", "query 3", "query 5"}; !slices.Equal(got, want) {
			t.Fatalf("%s: left are %q, expected %q", host, got, want)
		}
		for _, q := range left {
			if q.Client != p.client.LocalAddr().(*net.UDPAddr).AddrPort() || q.Local != p.local() {
				t.Errorf("%q from %v at %v", q.Wire, q.Client, q.Local)
			}
		}
		left[0].Done()
		if got := next(); len(got) != 2 {
			t.Errorf("%s: left are %q after one is done", host, wires(got))
		}
	}
}

// TestLeftEnds: a query that nobody waits for any more, or that is there whenever the process dies, is left no longer.
func TestLeftEnds(t *testing.T) {
	l, next := newLog(t)
	p := newPair(t, l, "127.0.0.1")
	p.receive("old")
	held := p.hold()
	p.receive("fatal")
	p.hold()
	if got := wires(next()); !slices.Equal(got, []string{"fatal", "old"}) {
		t.Fatalf("left are %q", got)
	}
	for range 2 * maxAsked { // a process that ends in order has not died of it
		l.Leave()
		if got := wires(next()); len(got) != 2 {
			t.Fatalf("left are %q", got)
		}
	}
	l.Leave()
	held.place.arrived -= int64(patience)
	for i := range maxAsked + 1 {
		got, want := wires(next()), []string{"fatal"}
		if i == maxAsked {
			want = nil
		}
		if !slices.Equal(got, want) {
			t.Errorf("takeover %d: left are %q, expected %q", i+1, got, want)
		}
	}
}

// TestLeftForLater: what came in where nobody listens yet is left until somebody does, or nobody waits for it any more.
func TestLeftForLater(t *testing.T) {
	l, file, err := Create()
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	defer file.Close()
	early, late := newPair(t, l, "127.0.0.1"), newPair(t, l, "127.0.0.1")
	early.receive("early")
	early.hold()
	late.receive("late")
	late.hold()
	late.receive("old")
	old := late.hold()
	again, err := Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	at := func(local netip.AddrPort) func(netip.AddrPort) bool {
		return func(a netip.AddrPort) bool { return a == local }
	}
	if got := wires(again.Left(at(early.local()))); !slices.Equal(got, []string{"early"}) {
		t.Errorf("left are %q at first", got)
	}
	old.place.arrived -= int64(patience)
	for _, want := range [][]string{{"late"}, nil} {
		if got := wires(again.Left(at(late.local()))); !slices.Equal(got, want) {
			t.Errorf("left are %q, expected %q", got, want)
		}
	}
}

// TestLeftHasArrived: memory that says a query comes in the future is damaged, and would be asked for whenever a process begins.
func TestLeftHasArrived(t *testing.T) {
	l, next := newLog(t)
	p := newPair(t, l, "127.0.0.1")
	p.receive("query")
	p.hold().place.arrived += int64(time.Hour)
	if got := next(); len(got) > 0 {
		t.Errorf("left are %q", wires(got))
	}
}

// TestBatchHasMemory: all of a query is there before the kernel writes to it, see init.
func TestBatchHasMemory(t *testing.T) {
	l, _ := newLog(t)
	page := uintptr(unix.Getpagesize())
	for range 4 {
		b := l.takeBatch()
		b.init(nil)
		for i := range b.queries {
			var there byte
			end := uintptr(unsafe.Pointer(&b.queries[i][maxQuery-1])) / page * page
			if _, _, errno := unix.Syscall(unix.SYS_MINCORE, end, page, uintptr(unsafe.Pointer(&there))); errno != 0 {
				t.Fatal(errno)
			}
			if there&1 == 0 {
				t.Fatalf("the end of query %d is not there", i)
			}
		}
	}
}

// TestBatch: what waits is received together, in more and more room once it has come one by one for a while; what is Done, held or
// neither is told apart when the process dies.
func TestBatch(t *testing.T) {
	l, file, err := Create()
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	defer file.Close()
	next := func() []Left { return reopened(t, file).Left(nil) }
	p := newPair(t, l, "127.0.0.1")
	const all = 1 + 4 + 16 + BatchSize
	p.receiver.single = probe - 1
	for i := range all {
		if _, err := fmt.Fprintf(p.client, "query %02d", i); err != nil {
			t.Fatal(err)
		}
	}
	seen := 0
	for _, want := range []int{1, 4, 16, BatchSize} {
		n := p.receiveWaiting()
		if n != want {
			t.Errorf("received %d, expected %d", n, want)
		}
		for i := range n {
			if wire, _ := p.receiver.Query(i); string(wire) != fmt.Sprintf("query %02d", seen) {
				t.Errorf("received %q at %d", wire, seen)
			}
			seen++
		}
		if left := wires(next()); len(left) != n {
			t.Errorf("left are %q of %d", left, n)
		}
	}
	p.hold()
	_, last := p.receiver.Hold(1)
	p.receiver.Done()
	if left := wires(next()); !slices.Equal(left, []string{"query 21", "query 22"}) {
		t.Errorf("left are %q of what is held", left)
	}
	last.Done()
	p.receiver.Release()
	if left := wires(next()); !slices.Equal(left, []string{"query 21"}) {
		t.Errorf("left are %q after the end", left)
	}
}

// TestRoom: where queries come one by one, one is asked for, but that it is seen now and then whether more wait.
func TestRoom(t *testing.T) {
	p := newPair(t, nil, "127.0.0.1")
	var rooms []int
	for range 2 * (probe + 1) {
		rooms = append(rooms, p.receiver.room)
		if _, err := p.client.Write([]byte("query")); err != nil {
			t.Fatal(err)
		}
		if n := p.receiveWaiting(); n != 1 {
			t.Fatalf("received %d", n)
		}
	}
	once := append(slices.Repeat([]int{1}, probe), 4)
	if want := slices.Concat(once, once); !slices.Equal(rooms, want) {
		t.Errorf("asked for %d, expected %d", rooms, want)
	}
}

// TestSizes: what is longer than a place is received whole, and not left; what is empty is nothing.
func TestSizes(t *testing.T) {
	l, next := newLog(t)
	p := newPair(t, l, "127.0.0.1")
	for _, size := range []int{0, 1, maxQuery, maxQuery + 1, 4096, 65507} {
		query := strings.Repeat("q", size)
		if got := p.receive(query); got != query {
			t.Errorf("received %d octets, expected %d", len(got), size)
		}
		held := p.hold()
		if kept, want := len(next()) == 1, size > 0 && size <= maxQuery; kept != want || held.IsKept() != want {
			t.Errorf("%d octets: kept %v, expected %v", size, kept, want)
		}
		held.Done()
	}
}

// TestFull: beyond the places queries are received too, and not kept.
func TestFull(t *testing.T) {
	l, next := newLog(t)
	p := newPair(t, l, "127.0.0.1")
	var held []Held
	for i := range places + 2 {
		p.receive(fmt.Sprint(i))
		held = append(held, p.hold())
	}
	if left := next(); len(left) != places || held[places].IsKept() {
		t.Errorf("%d are left, expected %d", len(left), places)
	}
	held[7].Done()
	p.receive("again")
	if !p.hold().IsKept() {
		t.Error("a place that is free again is not used")
	}
	for _, h := range held {
		if h != held[7] {
			h.Done()
		}
	}
	if left := wires(next()); !slices.Equal(left, []string{"again"}) {
		t.Errorf("left are %q", left)
	}
}

// TestWithout: a nil Log keeps nothing.
func TestWithout(t *testing.T) {
	var l *Log
	p := newPair(t, l, "127.0.0.1")
	if got := p.receive("query"); got != "query" || p.hold().IsKept() || l.Left(nil) != nil || l.Close() != nil {
		t.Errorf("received %q", got)
	}
	p.receiver.Done()
	p.receiver.Release()
}

func TestReceiverAllocates(t *testing.T) {
	l, _ := newLog(t)
	p := newPair(t, l, "127.0.0.1")
	query := []byte("query")
	if n := testing.AllocsPerRun(100, func() {
		if _, err := p.client.Write(query); err != nil {
			t.Fatal(err)
		}
		p.receiveWaiting()
		if _, held := p.receiver.Hold(0); !held.IsKept() {
			t.Fatal("not kept")
		} else {
			held.Done()
		}
		p.receiver.Done()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestForeign: what is no Log of this version is told apart.
func TestForeign(t *testing.T) {
	l, file, err := Create()
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	defer file.Close()
	spoil := map[string]func() error{
		"another version": func() error { _, err := file.WriteAt([]byte("1"), int64(len(mark)-2)); return err },
		"another size":    func() error { return file.Truncate(int64(size - 1)) },
		"nothing":         func() error { return file.Truncate(0) },
	}
	for _, name := range []string{"another version", "another size", "nothing"} {
		if err := spoil[name](); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(file); !errors.Is(err, ErrForeign) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestLayout: places do not overlap the kernel's structures (recvmmsg(2)).
func TestLayout(t *testing.T) {
	if got, want := unsafe.Sizeof(message{}), unsafe.Sizeof(unix.Msghdr{})+8; got != want {
		t.Errorf("struct mmsghdr has %d octets, expected %d", got, want)
	}
	if got, want := unsafe.Sizeof(iovec{}), unsafe.Sizeof(unix.Iovec{}); got != want {
		t.Errorf("struct iovec has %d octets, expected %d", got, want)
	}
}

// FuzzOpen: whatever stands in the memory, what is left of it is a query of a client, and once all are Done nothing is.
func FuzzOpen(f *testing.F) {
	f.Add([]byte("query"), uint32(5), uint16(unix.AF_INET), uint16(1), uint32(0), int64(0))
	f.Add([]byte{}, uint32(1<<31), uint16(unix.AF_INET6), uint16(0), uint32(9), int64(-1))
	f.Fuzz(func(t *testing.T, octets []byte, length uint32, family, is4 uint16, asked uint32, age int64) {
		l, file, err := Create()
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		p := l.take(nil, 1)[0]
		memory := unsafe.Slice((*byte)(unsafe.Pointer(p)), unsafe.Sizeof(*p))
		for i := range memory {
			if len(octets) > 0 {
				memory[i] = octets[i%len(octets)]
			}
		}
		p.length, p.client.Family, p.local.is4, p.asked, p.arrived = length, family, is4, asked, newClock().now()-age
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		again, err := Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer again.Close()
		for _, q := range again.Left(nil) {
			if len(q.Wire) == 0 || len(q.Wire) > maxQuery || !q.Client.IsValid() || !q.Local.IsValid() {
				t.Errorf("left is %+v", q)
			}
			q.Done()
		}
		if len(again.free) != 1 || again.Left(nil) != nil {
			t.Errorf("%d places of 1 are free", len(again.free))
		}
	})
}
