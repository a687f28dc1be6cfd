package forward

import (
	"bytes"
	"encoding/binary"
	"net"
	"net/netip"
	"sync"
	"testing"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/exchange"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// Bytes of the parts of a message.
const (
	sizeOfHeader = 12
	sizeOfOPT    = 11
	paddedTo     = 128 // RFC 8467 section 4.1
)

// A peer is a nameserver whose responses are bytes that the test chooses.
type peer struct {
	address nameserver.Server
	answer  func(query []byte, overTCP bool) (responses [][]byte)

	mu      sync.Mutex // guards queries
	queries []peerQuery
}

// A peerQuery is a query as the peer received it.
type peerQuery struct {
	wire    []byte
	overTCP bool
	from    netip.AddrPort
}

// newPeer serves UDP, and TCP on the same port. It calls answer for one query at a time. If answer
// returns no responses over TCP, it closes the connection.
func newPeer(t testing.TB, answer func(query []byte, overTCP bool) (responses [][]byte)) *peer {
	t.Helper()
	listener, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	at := listener.Addr().(*net.TCPAddr).AddrPort()
	conn, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(at))
	if err != nil {
		listener.Close()
		t.Skipf("the port is taken for UDP: %v", err)
	}
	p := &peer{address: nameserver.Server{Addr: at}, answer: answer}
	var running sync.WaitGroup
	running.Go(func() { p.serveUDP(conn) })
	running.Go(func() { p.serveTCP(listener) })
	t.Cleanup(func() {
		conn.Close()
		listener.Close()
		running.Wait()
	})
	return p
}

func (p *peer) serveUDP(conn *net.UDPConn) {
	buffer := make([]byte, 2048)
	for {
		n, client, err := conn.ReadFromUDPAddrPort(buffer)
		if err != nil {
			return
		}
		for _, response := range p.take(peerQuery{bytes.Clone(buffer[:n]), false, client}) {
			_, _ = conn.WriteToUDPAddrPort(response, client) // the client may be gone
		}
	}
}

func (p *peer) serveTCP(listener *net.TCPListener) {
	for {
		conn, err := listener.AcceptTCP()
		if err != nil {
			return
		}
		framed := &dns.Conn{Conn: conn}
		if query, err := framed.ReadMsgHeader(nil); err == nil {
			for _, response := range p.take(peerQuery{query, true, conn.RemoteAddr().(*net.TCPAddr).AddrPort()}) {
				_, _ = framed.Write(response)
			}
		}
		conn.Close()
	}
}

func (p *peer) take(q peerQuery) [][]byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queries = append(p.queries, q)
	return p.answer(q.wire, q.overTCP)
}

// seen returns the queries so far.
func (p *peer) seen() []peerQuery {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]peerQuery(nil), p.queries...)
}

// answerTo returns the response to an address query: with its question unchanged and without an OPT
// record.
func answerTo(query []byte, addr netip.Addr) []byte {
	end := exchange.QuestionEnd(query)
	response := bytes.Clone(query[:end])
	response[2], response[3] = 0x80|query[2]&0x01, 0x80
	copy(response[4:], []byte{0, 1, 0, 1, 0, 0, 0, 0})
	response = append(response, 0xc0, sizeOfHeader, 0, byte(dns.TypeA), 0, byte(dns.ClassINET), 0, 0, 1, 0x2c, 0, 4)
	return append(response, addr.AsSlice()...)
}

// nameIn returns the qname of a query, with its letter case.
func nameIn(t testing.TB, query []byte) string {
	t.Helper()
	name, _, err := dns.UnpackDomainName(query, sizeOfHeader)
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// optionsIn returns the EDNS options of one of our queries: everything after the fixed fields of
// the OPT record.
func optionsIn(query []byte) []byte {
	at := exchange.QuestionEnd(query) + sizeOfOPT
	if len(query) < at {
		return nil
	}
	return query[at:][:binary.BigEndian.Uint16(query[at-2:])]
}
