package dnsserver

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/sys/rawsock"
)

const (
	// aliveRound is the maximum number of sockets checked in one watchdog round: `listen: all` may
	// mean hundreds.
	aliveRound = 16
	// aliveTries is the number of UDP pings to a socket per round. A ping is lost if the socket
	// buffer is full.
	aliveTries = 4
	// longestLook is the longest wait for an answer before pings are sent again and the deadline is
	// checked.
	longestLook = 50 * time.Millisecond
)

// Alive is the watchdog's health check. It must be used by one goroutine only.
type Alive struct {
	listeners func() []Listener
	handler   Handler
	own       *ownClients
	next      int        // index of the listener to check next
	silent    []Listener // did not answer in the last round; checked in every round until they do
}

// Alive returns the health check for the server's listeners. Check calls handler directly if a
// listener's pings were lost among queries.
func (s *Server) Alive(handler Handler) *Alive {
	return &Alive{listeners: s.Listeners, handler: handler, own: &s.own}
}

// Check pings half of the server's sockets, aliveRound at most. It fails if one of them hangs, that
// is, neither answers nor receives what clients send. Sockets that are not bound yet, sockets that
// have been closed, and addresses that the host does not currently have are not failures.
func (a *Alive) Check(ctx context.Context) error {
	var pings []*ping
	var from []netip.AddrPort
	for _, l := range a.round() {
		if p := newPing(l); p != nil {
			defer p.close()
			pings, from = append(pings, p), append(from, p.from)
		}
	}
	if len(pings) == 0 {
		return nil
	}
	a.own.Store(&from)
	defer a.own.Store(nil)
	pings = await(ctx, pings)
	a.silent = nil
	var errs []error
	for _, p := range pings {
		if err := a.judge(ctx, p); err != nil {
			errs, a.silent = append(errs, err), append(a.silent, p.to)
		}
	}
	return errors.Join(errs...)
}

// round returns the listeners to check in this round.
func (a *Alive) round() []Listener {
	var bound []Listener
	for _, l := range a.listeners() {
		if l.Err == "" {
			bound = append(bound, l)
		}
	}
	isSilent := func(l Listener) bool { return slices.ContainsFunc(a.silent, l.isSame) }
	var round []Listener
	for _, l := range bound {
		if isSilent(l) {
			round = append(round, l)
		}
	}
	turns := min(aliveRound, (len(bound)+1)/2)
	for i := range turns {
		if l := bound[(a.next+i)%len(bound)]; !isSilent(l) {
			round = append(round, l)
		}
	}
	a.next = (a.next + turns) % max(1, len(bound))
	return round
}

// await sends the pings and returns those that are still unanswered when ctx ends.
func await(ctx context.Context, pings []*ping) []*ping {
	end, _ := ctx.Deadline()
	every := time.Until(end) / aliveTries
	isIn := func(state pingState) func(*ping) bool { return func(p *ping) bool { return p.state == state } }
	for slices.ContainsFunc(pings, isIn(waiting)) && ctx.Err() == nil {
		now := time.Now()
		for _, p := range pings {
			if p.state == waiting {
				p.send(now, every)
			}
		}
		awaitAny(pings, min(longestLook, time.Until(end)))
		for _, p := range pings {
			if p.state == waiting {
				p.readAnswer()
			}
		}
	}
	return slices.DeleteFunc(pings, isIn(answered))
}

// awaitAny waits until one of the waiting pings has an answer, but not longer than limit. It blocks
// the thread. A timer, or a socket of Go's poller, would wake up other threads too: an idle node
// spends most of its CPU time on that.
func awaitAny(pings []*ping, limit time.Duration) {
	var fds []unix.PollFd
	for _, p := range pings {
		if p.state == waiting {
			fds = append(fds, unix.PollFd{Fd: int32(p.fd), Events: unix.POLLIN})
		}
	}
	if len(fds) > 0 {
		_, _ = unix.Poll(fds, 1+int(max(0, limit).Milliseconds())) // the caller tries again after any error
	}
}

// judge decides whether a listener that did not answer its ping hangs.
func (a *Alive) judge(ctx context.Context, p *ping) error {
	l := p.to
	now := slices.IndexFunc(a.listeners(), func(other Listener) bool { return other.isSame(l) && other.Err == "" })
	if now < 0 {
		return nil // it no longer listens
	}
	why := p.err
	if a.listeners()[now].Taken > l.Taken {
		// The listener received queries, so our ping was lost among them, unless the Handler hangs.
		if why = ask(ctx, a.handler, l.Addr, l.Addr, l.Proto); why == nil {
			return nil
		}
	}
	return fmt.Errorf("listener %s %s does not answer the watchdog: %w", l.Proto, l.Addr, why)
}

func (l Listener) isSame(other Listener) bool { return l.Addr == other.Addr && l.Proto == other.Proto }

// ask sends the Handler a query that it answers without upstreams.
func ask(ctx context.Context, handler Handler, client, local netip.AddrPort, proto Proto) error {
	query := new(dns.Msg).SetQuestion("version.bind.", dns.TypeTXT)
	query.Question[0].Qclass = dns.ClassCHAOS
	_, err := handler.ServeDNS(ctx, &Query{Msg: query, Client: client, Local: local, Proto: proto})
	return err
}

// ownClients are the addresses that pings are currently sent from; nil means none. Their traffic is
// not counted and has no limits.
type ownClients struct {
	atomic.Pointer[[]netip.AddrPort]
}

func (o *ownClients) has(client netip.AddrPort) bool {
	own := o.Load()
	return own != nil && slices.Contains(*own, client)
}

// answerPing returns the response to a ping. It calls the Handler first, so a ping takes as long as
// a query.
func (s *Server) answerPing(x exchange) []byte {
	ctx, cancel := context.WithTimeout(s.queries, s.cfg.Timeout)
	defer cancel()
	_ = ask(ctx, s.cfg.Handler, x.client, x.local, x.proto) // an error is an answer too
	return errorReply(x.wire, dns.RcodeSuccess)
}

// ping checks whether one of our own sockets receives, by sending a query as a client would. It
// never blocks.
//
// The message is a header with an unassigned opcode (RFC 6895 section 2.2), so the code that
// answers queries need not look for pings. A server that does not recognize it as a ping answers
// NOTIMP, which also shows that it is alive.
type ping struct {
	to   Listener
	from netip.AddrPort
	fd   int
	wire []byte
	sent time.Time // zero if not sent yet

	state pingState
	err   error // reason why there is no answer
}

type pingState int

const (
	waiting  pingState = iota
	answered           // or it cannot be checked
	silent             // nothing listens there
)

const opcodePing = 15

// newPing binds its socket to the address that it checks. An address that this host does not have
// cannot be bound, so no packet leaves the host. It returns nil if no check is possible, for
// example without a free file descriptor.
func newPing(l Listener) *ping {
	kind := unix.SOCK_DGRAM
	if l.Proto == TCP {
		kind = unix.SOCK_STREAM
	}
	family := unix.AF_INET
	if !l.Addr.Addr().Is4() {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, kind|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	p := &ping{to: l, fd: fd, wire: newPingMessage(l.Proto), err: os.ErrDeadlineExceeded}
	if !p.bind() {
		p.close()
		return nil
	}
	return p
}

func newPingMessage(proto Proto) []byte {
	wire := make([]byte, prefixSize+headerSize)
	binary.BigEndian.PutUint16(wire, headerSize)
	binary.BigEndian.PutUint16(wire[prefixSize:], dns.Id())
	wire[prefixSize+2] = opcodePing << 3
	if proto == UDP {
		return wire[prefixSize:]
	}
	return wire
}

func isPing(wire []byte) bool { return wire[2]>>3 == opcodePing }

func (p *ping) bind() bool {
	name, size := sockaddr(netip.AddrPortFrom(p.to.Addr.Addr(), 0))
	if _, _, errno := unix.Syscall(unix.SYS_BIND, uintptr(p.fd), uintptr(unsafe.Pointer(&name)), uintptr(size)); errno != 0 {
		return false
	}
	size = uint32(unsafe.Sizeof(name))
	_, _, errno := unix.Syscall(unix.SYS_GETSOCKNAME, uintptr(p.fd), uintptr(unsafe.Pointer(&name)), uintptr(unsafe.Pointer(&size)))
	p.from = rawsock.AddrPort(&name)
	return errno == 0
}

// sockaddr converts an address to a kernel socket address. Its zone is an interface name.
func sockaddr(addr netip.AddrPort) (name unix.RawSockaddrInet6, size uint32) {
	if link, err := net.InterfaceByName(addr.Addr().Zone()); err == nil {
		addr = netip.AddrPortFrom(addr.Addr().WithZone(strconv.Itoa(link.Index)), addr.Port())
	}
	size = rawsock.SetAddr(&name, addr)
	return name, size
}

// send sends the ping: once over TCP, and at the given interval over UDP.
func (p *ping) send(now time.Time, every time.Duration) {
	switch {
	case p.sent.IsZero():
		name, size := sockaddr(p.to.Addr)
		_, _, errno := unix.Syscall(unix.SYS_CONNECT, uintptr(p.fd), uintptr(unsafe.Pointer(&name)), uintptr(size))
		if errno != 0 && errno != unix.EINPROGRESS && errno != unix.EALREADY && errno != unix.EISCONN {
			p.fail(errno)
			return
		}
	case p.to.Proto == TCP || now.Sub(p.sent) < every:
		return
	}
	if _, err := unix.SendmsgN(p.fd, p.wire, nil, nil, unix.MSG_NOSIGNAL); err == nil {
		p.sent = now
	} else {
		p.fail(err)
	}
}

// readAnswer checks for an answer. Over TCP, any data or the end of the connection, as when there
// are too many, shows that the socket accepts connections.
func (p *ping) readAnswer() {
	var in [headerSize + prefixSize]byte
	n, _, err := unix.Recvfrom(p.fd, in[:], 0)
	if err != nil {
		p.fail(err)
		return
	}
	if p.to.Proto == TCP || n >= headerSize && in[0] == p.wire[0] && in[1] == p.wire[1] {
		p.state = answered
	}
}

// fail handles the error of a system call. Only ECONNREFUSED means that nothing listens. Other
// errors mean that the check is impossible or that the connection was closed.
func (p *ping) fail(err error) {
	switch {
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
	case errors.Is(err, unix.ECONNREFUSED):
		p.state, p.err = silent, err
	default:
		p.state = answered
	}
}

func (p *ping) close() { unix.Close(p.fd) }
