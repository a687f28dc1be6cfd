package dnsserver

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// holder acts as the service manager: it keeps the sockets of one Server for the next.
type holder struct {
	t    *testing.T
	held map[socketName]*os.File
}

type socketName struct {
	proto Proto
	at    netip.AddrPort
	index int
}

func newHolder(t *testing.T) *holder {
	h := &holder{t, map[socketName]*os.File{}}
	t.Cleanup(func() {
		for _, file := range h.held {
			file.Close()
		}
	})
	return h
}

func (h *holder) duplicate(fd int, name string) *os.File {
	again, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		h.t.Fatal(err)
	}
	return os.NewFile(uintptr(again), name)
}

func (h *holder) Take(proto Proto, at netip.AddrPort, index int) *os.File {
	held := h.held[socketName{proto, at, index}]
	if held == nil {
		return nil
	}
	if p, a, err := Identify(held); err != nil || p != proto || a != at {
		h.t.Errorf("Identify of %s %v: %s %v, %v", proto, at, p, a, err)
	}
	var again *os.File
	c, err := held.SyscallConn()
	if err == nil {
		err = c.Control(func(fd uintptr) { again = h.duplicate(int(fd), held.Name()) })
	}
	if err != nil {
		h.t.Fatal(err)
	}
	return again
}

func (h *holder) Keep(proto Proto, at netip.AddrPort, index, fd int) {
	if name := (socketName{proto, at, index}); h.held[name] == nil {
		h.held[name] = h.duplicate(fd, string(proto))
	}
}

func (h *holder) Drop(proto Proto, at netip.AddrPort) {
	for name, file := range h.held {
		if name.proto == proto && name.at == at {
			file.Close()
			delete(h.held, name)
		}
	}
}

func (h *holder) Discard(proto Proto, at netip.AddrPort, index int) {
	name := socketName{proto, at, index}
	if file := h.held[name]; file != nil {
		file.Close()
		delete(h.held, name)
	}
}

// TestHandOver: a Server answers all queries that it has received, with SERVFAIL when the time is
// up. The next Server answers unread queries and new connections from the same address. UDP is
// served while TCP drains.
func TestHandOver(t *testing.T) {
	for name, at := range map[string]netip.AddrPort{"IPv4": anyPort, "IPv6": netip.MustParseAddrPort("[::1]:0")} {
		t.Run(name, func(t *testing.T) {
			if socket, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(at)); err != nil {
				lab.Skip(t, "no %v here: %v", at.Addr(), err)
			} else {
				socket.Close()
			}
			testHandOver(t, at)
		})
	}
}

func testHandOver(t *testing.T, want netip.AddrPort) {
	sockets := newHolder(t)
	entered, release := make(chan string, 10), make(chan struct{})
	first := New(Config{Sockets: sockets, Handler: HandlerFunc(func(ctx context.Context, q *Query) (*dns.Msg, error) {
		name := q.Name.String()
		switch {
		case strings.HasPrefix(name, "slow"):
			entered <- name
			<-ctx.Done()
			return nil, ctx.Err()
		case strings.HasPrefix(name, "soon"):
			entered <- name
			<-release
		}
		return answerOf(name + " 60 A 192.0.2.1"), nil
	})})
	if err := first.Listen([]netip.AddrPort{want}); err != nil {
		t.Fatal(err)
	}
	at := first.Listeners()[0].Addr

	connected, slow := dial(t, TCP, at), dial(t, UDP, at)
	connected.send(packed(t, query("soon.example.", dns.TypeA)))
	slow.send(packed(t, query("slow.example.", dns.TypeA)))
	<-entered
	<-entered
	drained := make(chan error)
	go func() { drained <- first.DrainTCP(t.Context()) }()
	waitUntilRefused(t, first)
	waiting := dial(t, TCP, at) // for the next server
	waiting.send(packed(t, query("www.example.", dns.TypeA)))
	if r := dial(t, UDP, at).exchange(query("www.example.", dns.TypeA)); address(r) != "192.0.2.1" {
		t.Errorf("UDP while TCP drains: %v", r)
	}
	close(release)
	if r := connected.receive(); address(r) != "192.0.2.1" {
		t.Errorf("last response over TCP: %v", r)
	}
	if err := <-drained; err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	gaveUp := make(chan struct{})
	if open := first.Leave(ctx, func() { close(gaveUp) }); open != 1 {
		t.Errorf("%d queries are open, want 1", open)
	}
	<-gaveUp
	if r := slow.receive(); r.Rcode != dns.RcodeServerFailure {
		t.Errorf("response to the open query: %v", r)
	}
	late := dial(t, UDP, at)
	late.send(packed(t, query("www.example.", dns.TypeA)))

	second := New(Config{Sockets: sockets, Handler: HandlerFunc(func(_ context.Context, q *Query) (*dns.Msg, error) {
		return answerOf(q.Name.String() + " 60 A 192.0.2.2"), nil
	})})
	if err := second.Listen([]netip.AddrPort{at}); err != nil {
		t.Fatal(err)
	}
	defer second.Shutdown(context.Background())
	for name, c := range map[string]*client{"not received": late, "not accepted": waiting} {
		if r := c.receive(); address(r) != "192.0.2.2" {
			t.Errorf("%s: %v", name, r)
		}
	}
	if got := second.Stats(); got.Answered != 2 {
		t.Errorf("got stats %+v", got)
	}
}

// TestLeaveWaits: queries that are answered while the server leaves get their answers, and giveUp
// is not called.
func TestLeaveWaits(t *testing.T) {
	sockets := newHolder(t)
	entered, release := make(chan struct{}), make(chan struct{})
	s := New(Config{Sockets: sockets, Handler: HandlerFunc(func(context.Context, *Query) (*dns.Msg, error) {
		entered <- struct{}{}
		<-release
		return answerOf("www.example. 60 A 192.0.2.1"), nil
	})})
	if err := s.Listen([]netip.AddrPort{anyPort}); err != nil {
		t.Fatal(err)
	}
	at := s.Listeners()[0].Addr
	c := dial(t, UDP, at)
	c.send(packed(t, query("www.example.", dns.TypeA)))
	<-entered
	if err := s.DrainTCP(t.Context()); err != nil {
		t.Fatal(err)
	}
	left := make(chan int)
	go func() { left <- s.Leave(t.Context(), func() { t.Error("giveUp was called") }) }()
	for len(s.Listeners()) > 0 {
		time.Sleep(time.Millisecond)
	}
	close(release)
	if r := c.receive(); address(r) != "192.0.2.1" {
		t.Errorf("got answer %v", r)
	}
	if open := <-left; open != 0 {
		t.Errorf("got %d open queries, want 0", open)
	}
}

// TestLeavesAtOnce: a receiver that waits for a slot does not delay Leave. Its query has been read
// and is answered too.
func TestLeavesAtOnce(t *testing.T) {
	entered := make(chan struct{}, 2)
	s := New(Config{Sockets: newHolder(t), MaxInFlight: 1, Handler: HandlerFunc(func(ctx context.Context, _ *Query) (*dns.Msg, error) {
		entered <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	})})
	if err := s.Listen([]netip.AddrPort{anyPort}); err != nil {
		t.Fatal(err)
	}
	at := s.Listeners()[0].Addr
	clients := []*client{dial(t, UDP, at), dial(t, UDP, at)}
	for _, c := range clients {
		c.send(packed(t, query("slow.example.", dns.TypeA)))
	}
	<-entered
	for s.Stats().UDPQueries < 2 { // the second has been read and waits
		time.Sleep(time.Millisecond)
	}
	if err := s.DrainTCP(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if open := s.Leave(ctx, nil); open != 2 {
		t.Errorf("%d queries are open, want 2", open)
	}
	for _, c := range clients {
		if r := c.receive(); r.Rcode != dns.RcodeServerFailure {
			t.Errorf("got %v, want SERVFAIL", r)
		}
	}
}

// TestKilled: after SIGKILL the next server answers the queries that wait in the sockets. Queries
// that the killed server had read are lost. The next server must not answer them, because one of
// them may have caused the crash.
func TestKilled(t *testing.T) {
	sockets := newHolder(t)
	entered := make(chan struct{}, 1)
	first := New(Config{Sockets: sockets, Handler: HandlerFunc(func(ctx context.Context, _ *Query) (*dns.Msg, error) {
		entered <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	})})
	if err := first.Listen([]netip.AddrPort{anyPort}); err != nil {
		t.Fatal(err)
	}
	at := first.Listeners()[0].Addr
	lost := dial(t, UDP, at)
	lost.send(packed(t, query("lost.example.", dns.TypeA)))
	<-entered
	kill(first)
	waiting := []*client{dial(t, TCP, at), lost}
	for range 2 * batchSize {
		waiting = append(waiting, dial(t, UDP, at))
	}
	for _, c := range waiting {
		c.send(packed(t, query("www.example.", dns.TypeA)))
	}

	var read atomic.Int64
	second := New(Config{Sockets: sockets, Handler: HandlerFunc(func(_ context.Context, q *Query) (*dns.Msg, error) {
		if q.Name.Relative() == "lost.example" {
			t.Error("the next server got a query that the killed one had read")
		}
		read.Add(1)
		return answerOf(q.Name.String() + " 60 A 192.0.2.2"), nil
	})})
	if err := second.Listen([]netip.AddrPort{at}); err != nil {
		t.Fatal(err)
	}
	for _, c := range waiting {
		if r := c.receive(); r.Question[0].Name != "www.example." || address(r) != "192.0.2.2" {
			t.Errorf("got answer %v", r)
		}
	}
	if err := second.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if got := int(read.Load()); got != len(waiting) {
		t.Errorf("the next server has read %d queries, want %d", got, len(waiting))
	}
}

// kill imitates SIGKILL: the server suddenly stops reading and sending, and its sockets are closed.
func kill(s *Server) {
	defer s.cancel()
	for _, b := range s.end() {
		switch all := b.socket.(type) {
		case udpSockets:
			for _, u := range all {
				u.stopping.Store(true)
				u.receiver.wake()
				u.receiving.Wait()
				u.close()
			}
		case *tcpSocket:
			all.leaving.Store(true)
			all.stop()
			all.active.Wait()
		}
	}
	s.spare.release()
}

// TestLastCall: a client that connected before TCP drains is answered, even if its query is not
// read yet. Later connections go to the successor. An unused connection is closed.
func TestLastCall(t *testing.T) {
	handler := HandlerFunc(func(_ context.Context, q *Query) (*dns.Msg, error) {
		return answerOf(q.Name.String() + " 60 A 192.0.2.1"), nil
	})
	sockets := newHolder(t)
	first := New(Config{Handler: handler, Sockets: sockets})
	if err := first.Listen([]netip.AddrPort{anyPort}); err != nil {
		t.Fatal(err)
	}
	at := first.Listeners()[0].Addr
	silent := dial(t, TCP, at)
	silent.exchange(query("www.example.", dns.TypeA))
	var clients sync.WaitGroup
	ask := func() {
		c := dial(t, TCP, at)
		c.send(packed(t, query("www.example.", dns.TypeA)))
		clients.Go(func() {
			if r := c.receive(); address(r) != "192.0.2.1" {
				t.Errorf("got %v", r)
			}
		})
	}
	for range 25 { // Config.MaxTCPPerClient is 64
		ask()
	}
	drained := make(chan error)
	go func() { drained <- first.DrainTCP(t.Context()) }()
	for range 25 { // Config.MaxTCPPerClient is 64
		ask()
	}
	if err := <-drained; err != nil {
		t.Error(err)
	}
	if _, err := silent.conn.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("unused connection: got error %v", err)
	}
	first.Leave(t.Context(), nil)
	second := New(Config{Handler: handler, Sockets: sockets})
	if err := second.Listen([]netip.AddrPort{at}); err != nil {
		t.Fatal(err)
	}
	defer second.Shutdown(context.Background())
	clients.Wait()
}

func address(m *dns.Msg) string {
	if len(m.Answer) == 0 {
		return ""
	}
	return m.Answer[0].(*dns.A).A.String()
}

// waitUntilRefused waits until the server accepts no more connections.
func waitUntilRefused(t *testing.T, s *Server) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); len(s.Listeners()) > 1; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the TCP listener is still open")
		}
	}
	time.Sleep(10 * time.Millisecond) // let the accepting goroutine wake up
}

// heirs is a holder that needs no further descriptors, like another process.
type heirs struct {
	*holder
	files map[socketName]*os.File // inherited
	usual unix.Rlimit             // of open files
}

func (h *heirs) Keep(proto Proto, at netip.AddrPort, index, fd int) {
	var now unix.Rlimit
	err := errors.Join(unix.Getrlimit(unix.RLIMIT_NOFILE, &now), unix.Setrlimit(unix.RLIMIT_NOFILE, &h.usual))
	h.holder.Keep(proto, at, index, fd)
	if err = errors.Join(err, unix.Setrlimit(unix.RLIMIT_NOFILE, &now)); err != nil {
		h.t.Fatal(err)
	}
}

func (h *heirs) Take(proto Proto, at netip.AddrPort, index int) *os.File {
	name := socketName{proto, at, index}
	file := h.files[name]
	delete(h.files, name)
	return file
}

// TestNoDescriptorForSockets runs in a process of its own that has no file descriptors left for a
// while. The service manager kept a socket that could then not be served: over TCP the address was
// in use until the next restart, and over UDP the socket got a part of the queries, unread.
func TestNoDescriptorForSockets(t *testing.T) {
	if !isAlone(t) {
		return
	}
	for _, inherits := range []bool{true, false} {
		// Each number of free descriptors makes the server fail elsewhere.
		for free := 0; !t.Failed(); free++ {
			if servedWithFiles(t, free, inherits) == fewSockets {
				break
			}
		}
	}
}

const fewSockets = 3

// servedWithFiles returns the number of sockets that a server with so many free descriptors serves
// over UDP. If inherits is true, another server had them before.
func servedWithFiles(t *testing.T, free int, inherits bool) (served int) {
	t.Helper()
	held := newHolder(t)
	config := Config{Handler: fixed("www.example.com. 60 A 192.0.2.80"), UDPSockets: fewSockets, Sockets: held, Timeout: time.Hour}
	first := New(config)
	if err := first.Listen([]netip.AddrPort{anyPort}); err != nil {
		t.Fatal(err)
	}
	at := first.Listeners()[0].Addr
	if err := first.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	from := &heirs{holder: held, files: map[socketName]*os.File{}}
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &from.usual); err != nil {
		t.Fatal(err)
	}
	for name := range held.held {
		if inherits {
			from.files[name] = held.Take(name.proto, name.at, name.index)
		} else {
			held.Discard(name.proto, name.at, name.index)
		}
	}
	config.Sockets = from
	second := New(config)
	err := from.withFiles(free, func() error { return second.Listen([]netip.AddrPort{at}) })
	if err != nil && !errors.Is(err, unix.EMFILE) {
		t.Errorf("%d free descriptors: %v, want EMFILE", free, err)
	}
	for name := range held.held {
		if bound(second.bindings, at, name.proto) == nil {
			t.Errorf("%d free descriptors: %v is held and not served", free, name)
		}
	}
	if served = len(udpOf(second.bindings)); served > 0 && len(held.held) > served+1 { // one of TCP
		t.Errorf("%d free descriptors: %d sockets are served, and %d are held", free, served, len(held.held))
	}
	if err := second.Listen([]netip.AddrPort{at}); err != nil {
		t.Errorf("after %d free descriptors: %v", free, err)
	}
	if t.Failed() {
		return 0 // queries may get no answer
	}
	for _, proto := range []Proto{UDP, TCP} {
		dial(t, proto, at).exchange(query("www.example.com.", dns.TypeA))
	}
	if err := second.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	return served
}

// withFiles calls f while the process may open that many more files.
func (h *heirs) withFiles(n int, f func() error) error {
	var files []*os.File
	for range n + 1 {
		file, err := os.Open(os.DevNull)
		if err != nil {
			h.t.Fatal(err)
		}
		files = append(files, file)
	}
	limit := h.usual
	limit.Cur = uint64(files[n].Fd())
	for _, file := range files {
		file.Close()
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		h.t.Fatal(err)
	}
	failed := f()
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &h.usual); err != nil {
		h.t.Fatal(err)
	}
	return failed
}

// TestSocketsAreDropped: a socket that is no longer served is dropped. A socket that cannot be
// served is kept.
func TestSocketsAreDropped(t *testing.T) {
	sockets := newHolder(t)
	s, _ := start(t, Config{Handler: fixed(), Sockets: sockets})
	before := s.Listeners()
	if err := s.Listen([]netip.AddrPort{anyPort, loopback("127.0.0.2")}); err != nil {
		t.Fatal(err)
	}
	if len(sockets.held) != 4 {
		t.Errorf("%d sockets are kept, want 4", len(sockets.held))
	}
	if err := s.Listen([]netip.AddrPort{anyPort}); err != nil {
		t.Fatal(err)
	}
	for _, l := range before {
		if sockets.held[socketName{l.Proto, l.Addr, 0}] == nil || len(sockets.held) != 2 {
			t.Errorf("kept %v, want %v", sockets.held, before)
		}
	}
}

// TestTriedPortIsNotKept: if a port is free only for TCP, none of its sockets is kept. Here one
// port in 14 is in use for UDP. CI ran into ports that other programs used.
func TestTriedPortIsNotKept(t *testing.T) {
	for range 2000 {
		taken, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			t.Fatal(err)
		}
		defer taken.Close()
	}
	sockets := newHolder(t)
	s, _ := start(t, Config{Handler: fixed(), Sockets: sockets})
	for range 100 {
		for _, want := range [][]netip.AddrPort{nil, {anyPort}} {
			if err := s.Listen(want); err != nil {
				t.Fatal(err)
			}
			if got := len(sockets.held); got != 2*len(want) {
				t.Fatalf("%d sockets are kept, want %d", got, 2*len(want))
			}
		}
	}
}

// TestIdentify: Identify rejects files that are not DNS sockets, regardless of their names.
func TestIdentify(t *testing.T) {
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	connected, err := net.DialTCP("tcp", nil, listener.Addr().(*net.TCPAddr))
	if err != nil {
		t.Fatal(err)
	}
	defer connected.Close()
	unixSocket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: t.TempDir() + "/s", Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer unixSocket.Close()
	pipe, other, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	defer other.Close()
	for name, of := range map[string]interface{ File() (*os.File, error) }{"a connection": connected, "a unix socket": unixSocket} {
		file, err := of.File()
		if err != nil {
			t.Fatal(err)
		}
		if proto, addr, err := Identify(file); err == nil {
			t.Errorf("%s is identified as %s %v", name, proto, addr)
		}
		file.Close()
	}
	if _, _, err := Identify(pipe); err == nil {
		t.Error("a pipe is identified as a socket")
	}
}
