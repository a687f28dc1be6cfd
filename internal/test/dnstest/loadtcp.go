package dnstest

import (
	"errors"
	"io"
	"net"
	"net/netip"

	"github.com/miekg/dns"
)

func (r *Loading) startTCP(q asked) {
	r.overTCP.Add(1)
	r.tcp.Go(func() {
		defer r.overTCP.Add(-1)
		r.askOverTCP(q)
	})
}

// askOverTCP sends the question over its own connection, and once more if that is closed before the
// answer.
func (r *Loading) askOverTCP(q asked) {
	wire, err := q.exchange(r.load)
	if err != nil && !isTimeout(err) {
		wire, err = q.exchange(r.load)
	}
	if err != nil {
		r.lost(q, err.Error())
		return
	}
	r.answered(q, wire)
}

func (q asked) exchange(l Load) ([]byte, error) {
	dialer := net.Dialer{Deadline: q.at.Add(l.Patience)}
	if q.client.IsValid() {
		dialer.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(q.client, 0))
	}
	conn, err := dialer.Dial("tcp", l.Server.String())
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	conn.SetDeadline(q.at.Add(l.Patience))
	c := dns.Conn{Conn: conn}
	if _, err := c.Write(q.message(dns.Id())); err != nil {
		return nil, err
	}
	wire, err := c.ReadMsgHeader(nil)
	if err == nil && len(wire) == 0 {
		err = io.ErrUnexpectedEOF
	}
	return wire, err
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}
