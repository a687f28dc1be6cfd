package soak

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/miekg/dns"
)

func isClosed(err error) bool { return errors.Is(err, net.ErrClosed) }

// overTCP opens one connection after the other, with some questions on each, until ctx ends.
func overTCP(ctx context.Context, t *tally, from netip.Addr, to netip.AddrPort) {
	for n := uint64(0); ctx.Err() == nil; n++ {
		var questions []*question
		for k := range kinds {
			q := newQuestion(k, n)
			q.counts = t.ask()
			questions = append(questions, q)
		}
		left, err := converse(from, to, t, questions)
		if err != nil && !isTimeout(err) && len(left) > 0 { // like glibc, retry if the connection was closed before the answer
			left, err = converse(from, to, t, left)
		}
		for _, q := range left {
			t.ended(q.counts, q, lost, "over TCP: "+err.Error())
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// converse sends all questions at once and returns those without an answer.
func converse(from netip.Addr, to netip.AddrPort, t *tally, questions []*question) (left []*question, err error) {
	dialer := net.Dialer{Timeout: patience, LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))}
	conn, err := dialer.Dial("tcp4", to.String())
	if err != nil {
		return questions, err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	c := dns.Conn{Conn: conn}
	waiting := map[uint16]*question{}
	for i, q := range questions {
		q.wire[0], q.wire[1] = 0, byte(i)
		waiting[uint16(i)] = q
		if _, err := c.Write(q.wire); err != nil {
			return questions, err
		}
	}
	for len(waiting) > 0 {
		wire, err := c.ReadMsgHeader(nil)
		if err != nil {
			for _, q := range waiting {
				left = append(left, q)
			}
			return left, err
		}
		id := uint16(wire[0])<<8 | uint16(wire[1])
		if q := waiting[id]; q != nil {
			delete(waiting, id)
			o, what := q.judge(wire)
			t.ended(q.counts, q, o, what)
		}
	}
	return nil, nil
}
