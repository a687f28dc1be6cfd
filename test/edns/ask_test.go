package edns

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"
)

// patience bounds all waits. Every response must be much faster: a stub resolver retries after 5 s.
const patience = 20 * time.Second

// placeholder is a label that is replaced in each message to a daemon that must not know the
// answer.
const placeholder = "q000000"

var labels atomic.Int32

// unused returns a new label to replace placeholder.
func unused() string { return fmt.Sprintf("q%06d", labels.Add(1)) }

// named returns the message with that label.
func named(message []byte, label string) []byte {
	return bytes.ReplaceAll(message, []byte(placeholder), []byte(label))
}

// A peer is a socket for queries to the daemon. Messages have no length prefix here.
type peer struct {
	t       testing.TB
	conn    net.Conn
	network string
}

func dial(t testing.TB, network string, at netip.AddrPort) *peer {
	t.Helper()
	conn, err := net.Dial(network, at.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return &peer{t, conn, network}
}

func (p *peer) send(message []byte) {
	p.t.Helper()
	if p.network == "tcp" {
		message = framed(message)
	}
	if _, err := p.conn.Write(message); err != nil {
		p.t.Fatal(err)
	}
}

// framed returns a message with its length prefix, as over TCP: RFC 1035 section 4.2.2.
func framed(message []byte) []byte {
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(message))), message...)
}

func (p *peer) receive() []byte {
	p.t.Helper()
	if p.network == "udp" {
		buffer := make([]byte, 1<<16)
		n, err := p.conn.Read(buffer)
		if err != nil {
			p.t.Fatal(err)
		}
		return buffer[:n]
	}
	var size [2]byte
	if _, err := io.ReadFull(p.conn, size[:]); err != nil {
		p.t.Fatal(err)
	}
	message := make([]byte, binary.BigEndian.Uint16(size[:]))
	if _, err := io.ReadFull(p.conn, message); err != nil {
		p.t.Fatal(err)
	}
	return message
}

func (p *peer) ask(message []byte) []byte {
	p.t.Helper()
	p.send(message)
	return p.receive()
}

// isClosed waits until the daemon closes a connection. It returns true if the daemon sent nothing
// before.
func (p *peer) isClosed() bool {
	n, err := p.conn.Read(make([]byte, 1))
	timeout, ok := err.(net.Error)
	return n == 0 && err != nil && (!ok || !timeout.Timeout())
}
