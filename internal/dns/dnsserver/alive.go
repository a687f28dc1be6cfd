package dnsserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

const (
	// aliveRound sockets are asked in a round of the watchdog, the next ones in the next: `listen: all` may be hundreds.
	aliveRound = 16
	// aliveTries is how often a query over UDP is sent in the time of a round: one may be lost where the socket is full.
	aliveTries = 4
)

// Alive is the watchdog's check. It belongs to one goroutine.
type Alive struct {
	listeners func() []Listener
	handler   Handler
	next      int // whose turn it is
}

// NewAlive returns the check of these listeners. handler is asked in the place of a listener whose queries got lost among others.
func NewAlive(listeners func() []Listener, handler Handler) *Alive {
	return &Alive{listeners: listeners, handler: handler}
}

// Check asks our own sockets as a client does, and fails when one of them hangs: it neither answers nor takes what others send. What is
// not bound yet is no failure, nor is what was closed meanwhile, nor an address that the host does not have at present.
func (a *Alive) Check(ctx context.Context) error {
	var asking errgroup.Group
	for _, l := range a.round() {
		asking.Go(func() error { return a.ask(ctx, l) })
	}
	return asking.Wait()
}

// round is who is asked now.
func (a *Alive) round() []Listener {
	var bound []Listener
	for _, l := range a.listeners() {
		if l.Err == "" {
			bound = append(bound, l)
		}
	}
	var round []Listener
	for i := range min(aliveRound, len(bound)) {
		round = append(round, bound[(a.next+i)%len(bound)])
	}
	a.next = (a.next + len(round)) % max(1, len(bound))
	return round
}

func (a *Alive) ask(ctx context.Context, l Listener) error {
	query := new(dns.Msg).SetQuestion("version.bind.", dns.TypeTXT)
	query.Question[0].Qclass = dns.ClassCHAOS
	err := converse(ctx, l, query)
	if !isSilence(err) {
		return nil // it answers, or we are in no position to ask: no file descriptor is left, or the address is gone
	}
	now, ok := a.listener(l)
	if !ok {
		return nil
	}
	if now.Taken-l.Taken > aliveTries {
		// Others are taken: our query was lost among them, unless what answers it hangs.
		_, err = a.handler.ServeDNS(ctx, &Query{Msg: query, Client: l.Addr, Local: l.Addr, Proto: l.Proto})
		if err == nil {
			return nil
		}
	}
	return fmt.Errorf("our own listener %s %s does not answer: %w", l.Proto, l.Addr, err)
}

// listener is the same one as it is now; false: it listens no more.
func (a *Alive) listener(as Listener) (Listener, bool) {
	for _, l := range a.listeners() {
		if l.Addr == as.Addr && l.Proto == as.Proto {
			return l, l.Err == ""
		}
	}
	return Listener{}, false
}

// isSilence reports whether an exchange failed because nobody answered, and not because it could not be tried.
func isSilence(err error) bool {
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, unix.ECONNREFUSED)
}

// converse asks from the very address that it asks: one that this host does not have cannot be bound, and nothing leaves it.
func converse(ctx context.Context, l Listener, query *dns.Msg) error {
	wire, err := query.Pack()
	if err != nil {
		return err
	}
	dialer := net.Dialer{LocalAddr: net.UDPAddrFromAddrPort(netip.AddrPortFrom(l.Addr.Addr(), 0))}
	if l.Proto == TCP {
		dialer.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(l.Addr.Addr(), 0))
		wire = append([]byte{byte(len(wire) >> 8), byte(len(wire))}, wire...)
	}
	conn, err := dialer.DialContext(ctx, string(l.Proto), l.Addr.String())
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })()
	if l.Proto == TCP {
		return answerOverTCP(conn, wire)
	}
	return answerOverUDP(ctx, conn, wire)
}

// answerOverTCP waits for anything: an end of the connection, where there are too many, shows that somebody accepts them.
func answerOverTCP(conn net.Conn, wire []byte) error {
	if _, err := conn.Write(wire); err != nil {
		return err
	}
	_, err := io.ReadFull(conn, make([]byte, 2))
	return err
}

// answerOverUDP sends the query some times, and waits for a response with its ID.
func answerOverUDP(ctx context.Context, conn net.Conn, wire []byte) error {
	end, _ := ctx.Deadline()
	pause := time.Until(end) / aliveTries
	buf := make([]byte, dns.MinMsgSize)
	var err error
	for range aliveTries {
		if _, err = conn.Write(wire); err != nil {
			return err
		}
		conn.SetReadDeadline(time.Now().Add(pause))
		for err == nil {
			var n int
			if n, err = conn.Read(buf); err == nil && n > 2 && buf[0] == wire[0] && buf[1] == wire[1] {
				return nil
			}
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) || ctx.Err() != nil {
			return err
		}
	}
	return err
}
