package dnsserver

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"
)

// TestTCPOutOfOrder: a fast response does not wait for an earlier slow query (tcp-ooo), and a
// client that closes its half is still answered (tcp-halfclose).
func TestTCPOutOfOrder(t *testing.T) {
	release := make(chan struct{})
	_, addr := start(t, Config{Handler: HandlerFunc(func(_ context.Context, q *Query) (*dns.Msg, error) {
		if q.Name.Relative() == "slow.test" {
			<-release
		}
		return new(dns.Msg), nil
	})})
	c := dial(t, TCP, addr)
	c.send(packed(t, query("slow.test.", dns.TypeA)))
	c.send(packed(t, query("fast.test.", dns.TypeA)))
	if err := c.conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if r := c.receive(); r.Question[0].Name != "fast.test." {
		t.Errorf("first: %v", r)
	}
	close(release)
	if r := c.receive(); r.Question[0].Name != "slow.test." {
		t.Errorf("second: %v", r)
	}
	if _, err := c.conn.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("then: %v, want EOF", err)
	}
}

// TestTCPPipeline: at most MaxPipelined queries of a connection are handled at once, and none is
// lost.
func TestTCPPipeline(t *testing.T) {
	const pipelined, queries = 3, 10
	entered, release := make(chan struct{}, queries), make(chan struct{})
	s, addr := start(t, Config{MaxPipelined: pipelined, Handler: HandlerFunc(func(context.Context, *Query) (*dns.Msg, error) {
		entered <- struct{}{}
		<-release
		return new(dns.Msg), nil
	})})
	c := dial(t, TCP, addr)
	for range queries {
		c.send(packed(t, query("www.example.com.", dns.TypeA)))
	}
	for range pipelined {
		<-entered
	}
	// The other queries are read before this one, which the loop itself refuses.
	if r := dial(t, TCP, addr).exchange(query("www.example.com.", dns.TypeA, func(m *dns.Msg) { m.Opcode = dns.OpcodeNotify })); r.Rcode != dns.RcodeNotImplemented {
		t.Errorf("on another connection: %v", r)
	}
	if n := s.Stats().InFlight; n != pipelined {
		t.Errorf("%d in flight, want %d", n, pipelined)
	}
	close(release)
	for range queries {
		c.receive()
	}
}

// TestTCPPipelineEnds: queries sent in one segment by a client that then closes its half are all
// answered, whatever MaxPipelined is.
func TestTCPPipelineEnds(t *testing.T) {
	const queries = 20
	_, addr := start(t, Config{MaxPipelined: 2, Handler: fixed("www.example.com. 60 A 192.0.2.1")})
	c := dial(t, TCP, addr)
	wire := frame(t, query("www.example.com.", dns.TypeA))
	if _, err := c.conn.Write(bytes.Repeat(wire, queries)); err != nil {
		t.Fatal(err)
	}
	if err := c.conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	for range queries {
		c.receive()
	}
	if _, err := c.conn.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("then: %v, want EOF", err)
	}
}

// TestTCPLateReader: a client that reads only after all buffers are full still gets every response
// complete, cached or not.
func TestTCPLateReader(t *testing.T) {
	t.Parallel()
	const queries = 400
	long := fixed(addresses(4000)...) // 64 KB
	s, addr := start(t, Config{Handler: long, Wire: func(dst []byte, q *WireQuery) ([]byte, bool) {
		if q.Msg[0]%2 == 0 {
			return nil, false
		}
		response := append(append(dst, q.Msg[:2]...), make([]byte, 20_000)...)
		response[len(dst)+2] = 0x80
		return response, true
	}})
	c := dial(t, TCP, addr)
	var asking sync.WaitGroup
	asking.Go(func() {
		for i := range queries {
			m := query("www.example.com.", dns.TypeA)
			m.Id = uint16(i%2<<8 | i>>1) // the first byte of an odd ID: from the cache
			c.conn.Write(frame(t, m))
		}
	})
	stuck := func() (n int) {
		s.conns.mu.Lock()
		defer s.conns.mu.Unlock()
		for c := range s.conns.conns {
			if c.mayGo() && c.isStuck() {
				n++
			}
		}
		return n
	}
	for stuck() == 0 {
		time.Sleep(time.Millisecond)
	}
	seen := map[uint16]bool{}
	for range queries {
		wire := c.receiveWire()
		id := binary.BigEndian.Uint16(wire)
		if size := len(wire); seen[id] || id>>8 == 1 && size != 20_002 || id>>8 == 0 && size < 60_000 {
			t.Fatalf("a response of %d octets, ID %x, seen before: %v", size, id, seen[id])
		}
		seen[id] = true
	}
	asking.Wait()
}

func TestTCPLimits(t *testing.T) {
	tests := []struct {
		name      string
		cfg       Config
		busy      bool // the first connections have a pending query
		wantFirst bool // the first connection is kept
		wantLast  bool
	}{
		{"below the limits", Config{MaxTCP: 3, MaxTCPPerClient: 3}, false, true, true},
		{"total limit: longest idle connection is closed", Config{MaxTCP: 2, MaxTCPPerClient: 3}, false, false, true},
		{"client limit: longest idle connection is closed", Config{MaxTCP: 3, MaxTCPPerClient: 2}, false, false, true},
		{"total limit, all busy: new connection is closed", Config{MaxTCP: 2, MaxTCPPerClient: 3}, true, true, false},
		{"client limit, all busy: new connection is closed", Config{MaxTCP: 3, MaxTCPPerClient: 2}, true, true, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			entered, release := make(chan struct{}, 3), make(chan struct{})
			tt.cfg.Handler = HandlerFunc(func(context.Context, *Query) (*dns.Msg, error) {
				entered <- struct{}{}
				<-release
				return new(dns.Msg), nil
			})
			s, addr := start(t, tt.cfg)
			if !tt.busy {
				close(release)
			}
			wire := packed(t, query("www.example.com.", dns.TypeA))
			var conns []*client
			for range 2 {
				c := dial(t, TCP, addr)
				conns = append(conns, c)
				c.send(wire)
				<-entered
				if !tt.busy {
					c.receive()
				}
				// Wait before the next one, because the order in which they become idle matters.
				waitIdle(t, s, tt.busy)
			}
			last := dial(t, TCP, addr)
			kept := alive(last, wire)
			if kept != tt.wantLast {
				t.Errorf("the new connection: kept %v, want %v", kept, tt.wantLast)
			}
			if tt.busy {
				close(release)
				conns[0].receive()
			}
			if kept := alive(conns[0], wire); kept != tt.wantFirst {
				t.Errorf("the first connection: kept %v, want %v", kept, tt.wantFirst)
			}
			got := s.Stats()
			if (got.TCPEvicted == 1) == tt.wantFirst || (got.TCPRejected == 1) == tt.wantLast {
				t.Errorf("got stats %+v", got)
			}
		})
	}
}

// waitIdle waits until no connection has a pending query. A response arrives before this is
// recorded.
func waitIdle(t *testing.T, s *Server, busy bool) {
	t.Helper()
	for !busy {
		s.conns.mu.Lock()
		idle := 0
		for c := range s.conns.conns {
			if !c.isStuck() {
				idle++
			}
		}
		all := idle == len(s.conns.conns)
		s.conns.mu.Unlock()
		if all {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// isStuck reports whether the connection has a pending query or waits for its client to read.
func (c *tcpConn) isStuck() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.isSettledLocked() || c.isPaused
}

// alive reports whether a connection is still answered.
func alive(c *client, wire []byte) bool {
	c.conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(wire))), wire...))
	_, err := io.ReadFull(c.conn, make([]byte, 2+headerSize))
	return err == nil
}

// rawClient is the client end of a connection. Its methods wait by the clock of a synctest bubble.
type rawClient struct{ fd int }

func (c rawClient) Write(octets []byte) (n int, err error) {
	for n < len(octets) {
		k, err := unix.Write(c.fd, octets[n:])
		if err == unix.EAGAIN {
			time.Sleep(time.Millisecond)
			continue
		}
		if err != nil {
			return n, err
		}
		n += k
	}
	return n, nil
}

func (c rawClient) Read(octets []byte) (int, error) {
	for {
		n, err := unix.Read(c.fd, octets)
		switch {
		case err == unix.EAGAIN:
			time.Sleep(time.Millisecond)
		case err == nil && n == 0:
			return 0, io.EOF
		default:
			return n, err
		}
	}
}

// connect returns the loop of a server with one connection, which the test runs, and the client end
// of that connection.
func connect(t *testing.T, cfg Config) (*tcpLoop, rawClient) {
	s := New(cfg)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	fd, err := Dup(listener.(*net.TCPListener))
	if err != nil {
		t.Fatal(err)
	}
	socket := &tcpSocket{s: s, fd: fd, local: netip.MustParseAddrPort("192.0.2.2:53")}
	l, err := newTCPLoop(socket)
	if err != nil {
		t.Fatal(err)
	}
	socket.loops = []*tcpLoop{l}
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	l.now = time.Now()
	l.accepted(ends[0], netip.MustParseAddrPort("192.0.2.1:1024"))
	return l, rawClient{ends[1]}
}

// runUntilClosed runs the loop without blocking in the kernel until the last connection is closed.
func (l *tcpLoop) runUntilClosed() (took time.Duration) {
	begin := time.Now()
	for len(l.conns) > 0 {
		l.take(0)
		if len(l.conns) > 0 {
			time.Sleep(time.Millisecond)
		}
	}
	took = time.Since(begin)
	l.t.leaving.Store(true)
	l.obey()
	l.run()
	return took
}

func frame(t *testing.T, m *dns.Msg) []byte {
	wire := packed(t, m)
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(wire))), wire...)
}

// TestTCPPatience checks the timeout of each kind of slow client, by the clock of a synctest
// bubble.
func TestTCPPatience(t *testing.T) {
	www := query("www.example.com.", dns.TypeA)
	tests := []struct {
		name   string
		client func(t *testing.T, c rawClient)
		want   time.Duration
	}{
		{"sends nothing", func(*testing.T, rawClient) {}, 2 * time.Second},
		{"one byte of the length", func(_ *testing.T, c rawClient) { c.Write([]byte{0}) }, 2 * time.Second},
		{"half a query, delayed", func(t *testing.T, c rawClient) {
			time.Sleep(1500 * time.Millisecond)
			c.Write(frame(t, www)[:10])
		}, 3500 * time.Millisecond},
		{"one byte per second", func(t *testing.T, c rawClient) {
			for _, b := range frame(t, www) {
				c.Write([]byte{b})
				time.Sleep(time.Second)
			}
		}, 3 * time.Second},
		{"idle after a response", func(t *testing.T, c rawClient) {
			time.Sleep(time.Second)
			c.Write(frame(t, www))
			io.ReadFull(c, make([]byte, len(frame(t, www))))
		}, 6 * time.Second},
		{"two queries 4 s apart (tcp-reuse)", func(t *testing.T, c rawClient) {
			for range 2 {
				c.Write(frame(t, www))
				io.ReadFull(c, make([]byte, len(frame(t, www))))
				time.Sleep(4 * time.Second)
			}
		}, 9 * time.Second},
		{"idle time begins with the response, not with the query", func(t *testing.T, c rawClient) {
			c.Write(frame(t, query("slow.test.", dns.TypeA)))
			io.ReadFull(c, make([]byte, len(frame(t, query("slow.test.", dns.TypeA)))))
		}, 4*time.Second + 5*time.Second},
		{"does not read responses", func(t *testing.T, c rawClient) {
			for range 16 {
				c.Write(frame(t, query("long.test.", dns.TypeA)))
			}
		}, 2 * time.Second},
		{"closes", func(_ *testing.T, c rawClient) {
			time.Sleep(time.Second)
			unix.Shutdown(c.fd, unix.SHUT_WR)
		}, time.Second},
		{"sends HTTP", func(_ *testing.T, c rawClient) { io.Copy(c, strings.NewReader("GET / HTTP/1.1\r\n\r\n")) }, 2 * time.Second},
		{"empty messages", func(_ *testing.T, c rawClient) { c.Write(make([]byte, 2)) }, 0},
		{"not DNS", func(_ *testing.T, c rawClient) { c.Write(append([]byte{0, 5}, bytes.Repeat([]byte{1}, 5)...)) }, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, c := connect(t, Config{Handler: HandlerFunc(func(_ context.Context, q *Query) (*dns.Msg, error) {
					switch q.Name.Relative() {
					case "slow.test":
						time.Sleep(4 * time.Second)
					case "long.test":
						return answerOf(addresses(4000)...), nil
					}
					return new(dns.Msg), nil
				})})
				defer l.s.cancel()
				var client sync.WaitGroup
				client.Go(func() { tt.client(t, c) })
				const inexact = lookPause + 10*time.Millisecond // tolerance for several consecutive waits
				if got := l.runUntilClosed(); got < tt.want || got > tt.want+inexact {
					t.Errorf("the connection ended after %v, want %v", got, tt.want)
				}
				if n := l.s.Stats().InFlight; n != 0 {
					t.Errorf("%d queries are still in flight", n)
				}
				client.Wait()
				unix.Close(c.fd)
			})
		})
	}
}

// TestTCPSlowReader: a client that does not read holds no slots that others need. A row of
// TestTCPPatience covers its disconnection.
func TestTCPSlowReader(t *testing.T) {
	t.Parallel()
	const places = 2
	s, addr := start(t, Config{
		MaxInFlight: places, MaxPipelined: places, Write: time.Minute,
		Handler: fixed(addresses(4000)...), // 64 KB
	})
	slow := dial(t, TCP, addr)
	wire := frame(t, query("www.example.com.", dns.TypeA))
	go func() { // more than all buffers on the path hold
		for {
			if _, err := slow.conn.Write(wire); err != nil {
				return
			}
		}
	}()
	for last, same := uint64(0), 0; same < 3; { // until all its responses wait to be written
		got := s.Stats()
		if same++; got.InFlight != 0 || got.Answered == 0 || got.Answered != last {
			same = 0
		}
		last = got.Answered
		time.Sleep(100 * time.Millisecond)
	}
	// On a slow machine it may continue and hold the slots for a moment.
	other := dial(t, TCP, addr)
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		r := other.exchange(query("www.example.com.", dns.TypeA))
		if r.Rcode == dns.RcodeSuccess && len(r.Answer) > 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("another client: got %v; counted %+v", r.MsgHdr, s.Stats())
		}
	}
	if got := s.Stats(); got.TCPOpen != 2 {
		t.Errorf("got stats %+v", got)
	}
	slow.conn.Close()
}
