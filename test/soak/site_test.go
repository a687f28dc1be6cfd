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

// What a site answers.
const (
	address = "192.0.2.80" // to every question
	ttl     = 300
)

// A mood is how a site behaves.
type mood int32

const (
	fine mood = iota
	silent
	slow      // after slowness
	losing    // one query in three meets silence
	servfail  // with no record
	refused   // likewise
	truncated // and there is no TCP
	garbage   // a header that fits, and what no parser takes
	foreign   // the response to another question
)

const slowness = 200 * time.Millisecond

// A site is an upstream nameserver, which answers 100,000 questions a second: dnstest's, which parses and remembers each, would
// be what is measured.
type site struct {
	t    *testing.T
	at   netip.AddrPort
	mood atomic.Int32
	hot  atomic.Int64 // questions for names below hot.example, of which each is asked for again and again

	mu   sync.Mutex // guards what follows
	conn *net.UDPConn
	done chan struct{} // closed when conn is not read any more
}

func newSite(t *testing.T) *site {
	s := &site{t: t, at: netip.MustParseAddrPort("127.4.0.1:0")}
	s.open()
	s.at = s.conn.LocalAddr().(*net.UDPAddr).AddrPort()
	t.Cleanup(s.close)
	return s
}

func (s *site) set(m mood) { s.mood.Store(int32(m)) }

// close has its port closed, until open.
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
	isOpen := lab.Poll(10*time.Second, func() bool { // somebody's socket may have the port for a moment, on every address
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

// giveRoom has a socket hold what comes while others have the processor; who is not root has less room.
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
		time.AfterFunc(slowness, func() { _, _ = conn.WriteToUDPAddrPort(response, client) }) // it may be closed by then
	}
}

// respond makes a response of a query of one question.
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
