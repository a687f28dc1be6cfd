package soak

import (
	"bytes"
	"encoding/binary"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// Answers of a site.
const (
	address = "192.0.2.80" // answer to every question
	ttl     = 300
)

// mood is the behavior of a site.
type mood int32

const (
	fine mood = iota
	silent
	slow      // answers after 200 ms
	losing    // drops one query in three
	servfail  // without records
	refused   // without records
	truncated // without TCP
	garbage   // valid header, unparsable rest
	foreign   // response to another question
)

const slowness = 200 * time.Millisecond

// site is an upstream nameserver that answers 100,000 questions per second. dnstest's nameserver
// parses and records each query, so it would be the bottleneck.
type site struct {
	t    *testing.T
	at   netip.AddrPort
	mood atomic.Int32
	hot  atomic.Int64 // number of questions for names below hot.example, which are queried repeatedly

	mu   sync.Mutex // guards the fields below
	conn *net.UDPConn
	done chan struct{} // closed when conn is no longer read
}

func newSite(t *testing.T) *site {
	s := &site{t: t, at: netip.MustParseAddrPort("127.4.0.1:0")}
	s.open()
	s.at = s.conn.LocalAddr().(*net.UDPAddr).AddrPort()
	t.Cleanup(s.close)
	return s
}

func (s *site) set(m mood) { s.mood.Store(int32(m)) }

// close closes the port until open is called.
func (s *site) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn != nil {
		s.conn.Close()
		<-s.done
		s.conn = nil
	}
}

func (s *site) open() {
	s.mu.Lock()
	defer s.mu.Unlock()
	var conn *net.UDPConn
	var err error
	isOpen := lab.Poll(10*time.Second, func() bool { // another socket may briefly use the port on every address
		conn, err = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(s.at))
		return err == nil
	})
	if !isOpen {
		s.t.Errorf("opening an upstream nameserver: %v", err)
		return
	}
	giveRoom(conn)
	s.conn, s.done = conn, make(chan struct{})
	go s.answer(conn, s.done)
}

// giveRoom enlarges the socket buffer for times when other processes use the processor. Without
// root the limit is lower.
func giveRoom(conn *net.UDPConn) {
	const room = 16 << 20
	_ = conn.SetReadBuffer(room)
	if raw, err := conn.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, room) })
	}
}

func (s *site) answer(conn *net.UDPConn, done chan struct{}) {
	defer close(done)
	buf := make([]byte, 4096)
	for n := uint64(0); ; n++ {
		size, client, err := conn.ReadFromUDPAddrPort(buf)
		if err != nil {
			return
		}
		m := mood(s.mood.Load())
		if size < 17 || m == silent || m == losing && n%3 == 0 {
			continue
		}
		if bytes.Contains(buf[:size], []byte("\x03hot")) {
			s.hot.Add(1)
		}
		response := respond(buf[:size], m)
		if m != slow {
			_, _ = conn.WriteToUDPAddrPort(response, client)
			continue
		}
		time.AfterFunc(slowness, func() { _, _ = conn.WriteToUDPAddrPort(response, client) }) // the socket may be closed by then
	}
}

// respond builds a response to a query with one question.
func respond(query []byte, m mood) []byte {
	end := 12
	for query[end] != 0 {
		end += 1 + int(query[end])
	}
	end += 5
	response := append(make([]byte, 0, end+16), query[:end]...)
	binary.BigEndian.PutUint16(response[2:], 0x8180) // QR, RD, RA
	clear(response[6:12])
	switch m {
	case servfail:
		response[3] |= dns.RcodeServerFailure
	case refused:
		response[3] |= dns.RcodeRefused
	case truncated:
		response[2] |= 2
	case garbage:
		response[7] = 9
		return append(response, 0xc0, 0xff, 0xc0)
	case foreign:
		response[13] ^= 1
		fallthrough
	default:
		response[7] = 1
		response = append(response, 0xc0, 12, 0, byte(dns.TypeA), 0, dns.ClassINET)
		response = binary.BigEndian.AppendUint32(response, ttl)
		addr := netip.MustParseAddr(address).As4()
		response = append(append(response, 0, 4), addr[:]...)
	}
	return response
}
