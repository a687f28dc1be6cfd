package alike

import (
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/miekg/dns"
)

// The three servers.
const (
	us = iota
	dnsmasq
	unbound
	them // number of servers
)

var names = [them]string{"node-dns", "dnsmasq", "unbound"}

// answer is the response to a query. msg is nil if there was none or it cannot be parsed.
type answer struct {
	wire           []byte
	msg            *dns.Msg
	asked, arrived time.Time
}

// patience is the timeout of each try. Like a stub resolver, a client retries if there is no
// response.
const (
	patience = 5 * time.Second
	tries    = 3
)

// asker sends one query after the other to all three servers at the same time.
type asker struct {
	servers [them]netip.AddrPort
	udp     [them]net.Conn
	buf     []byte
	repeats [them]int // number of queries without a response
}

func newAsker(servers [them]netip.AddrPort) (*asker, error) {
	a := &asker{servers: servers, buf: make([]byte, dns.MaxMsgSize)}
	for i, server := range servers {
		conn, err := net.Dial("udp", server.String())
		if err != nil {
			a.close()
			return nil, err
		}
		a.udp[i] = conn
	}
	return a, nil
}

func (a *asker) close() {
	for _, conn := range a.udp {
		if conn != nil {
			conn.Close()
		}
	}
}

func (a *asker) ask(q query) (answers [them]answer, err error) {
	wire := append([]byte(nil), q.wire...)
	for try := range tries {
		binary.BigEndian.PutUint16(wire, uint16(rand.Uint32()))
		conns := a.udp
		for i := range conns {
			if answers[i].wire != nil {
				continue
			}
			if q.tcp {
				if conns[i], err = net.Dial("tcp", a.servers[i].String()); err != nil {
					return answers, err
				}
				defer conns[i].Close()
			}
			if try > 0 {
				a.repeats[i]++
			}
			answers[i].asked = time.Now()
			if err := send(conns[i], wire, q.tcp); err != nil {
				return answers, err
			}
		}
		missing := false
		for i, conn := range conns {
			if answers[i].wire != nil {
				continue
			}
			conn.SetReadDeadline(time.Now().Add(patience))
			if answers[i].wire, err = a.receive(conn, wire, q.tcp); err != nil {
				return answers, err
			}
			answers[i].arrived = time.Now()
			missing = missing || answers[i].wire == nil
		}
		if !missing {
			break
		}
	}
	for i := range answers {
		m := new(dns.Msg)
		if answers[i].wire != nil && m.Unpack(answers[i].wire) == nil {
			answers[i].msg = m
		}
	}
	return answers, nil
}

func send(conn net.Conn, wire []byte, tcp bool) error {
	if tcp {
		wire = append(binary.BigEndian.AppendUint16(nil, uint16(len(wire))), wire...)
	}
	_, err := conn.Write(wire)
	return err
}

// receive returns the response with the ID of wire, or nil if there is none or the connection was
// closed.
func (a *asker) receive(conn net.Conn, wire []byte, tcp bool) ([]byte, error) {
	for {
		n, err := 0, error(nil)
		if tcp {
			n, err = (&dns.Conn{Conn: conn}).Read(a.buf)
		} else {
			n, err = conn.Read(a.buf)
		}
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, io.EOF):
			return nil, nil
		case err != nil:
			return nil, err
		case n > 2 && a.buf[0] == wire[0] && a.buf[1] == wire[1]:
			return append([]byte(nil), a.buf[:n]...), nil
		}
	}
}
