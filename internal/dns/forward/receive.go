package forward

import (
	"cmp"
	"errors"
	"os"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/dns/dnswire"
	"github.com/node-dns/node-dns/internal/dns/exchange"
	"github.com/node-dns/node-dns/internal/sys/journal"
	"github.com/node-dns/node-dns/internal/sys/rawsock"
)

// maxStrays is the number of invalid responses after which a socket is closed. The question then
// moves to TCP, and so to another port. An attacker who knows the port gets three guesses at 65,536
// IDs (RFC 5452 sections 4.2 and 9.3).
const maxStrays = 3

// receive reads the datagrams of a try until the answer is found or the socket is empty:
// edge-triggered epoll does not report it again.
func (n *lane) receive(t *try) {
	for !t.isClosed {
		buffer := n.poll.buffer
		size, errno := rawsock.Receive(t.socket.fd, buffer)
		switch errno {
		case 0:
		case unix.EINTR:
			continue
		case unix.EAGAIN:
			return
		default:
			n.failed(t, os.NewSyscallError("read", errno))
			return
		}
		if size >= max(receiveSize, int(n.f.udp.Load().Size)+1) {
			exchange.SetTruncated(buffer) // more than we asked for
		}
		if r, ok := exchange.Simple(t.query, buffer[:size]); ok && t.canSkipParsing() {
			if t.isGuarded && t.to.CheckUDP(t.query, exchange.HasCase(t.query, buffer), r.Cookie, t.hasMismatch, time.Now()) {
				n.mismatched(t)
				continue
			}
			n.heardWire(t, r, size)
			continue
		}
		m, err := exchange.Decode(t.query, buffer[:size])
		if err == nil {
			n.heard(t, m, size, false)
			continue
		}
		n.f.counts.ignored.Add(1)
		n.strayed(t, exchange.IsUnreadable(err))
	}
}

// strayed handles a message that is not a valid response. The valid one may still arrive, but
// another server is queried at once. The same server is not queried again over UDP: that would give
// an attacker two ports to hit.
func (n *lane) strayed(t *try, isUnreadable bool) {
	fl := t.fl
	t.strays++
	switch {
	case t.strays >= maxStrays && fl.isFinished:
		n.close(t)
		n.clear(fl)
	case t.strays >= maxStrays && t.isProbe:
		n.close(t)
		t.to.Late(time.Now())
	case t.strays >= maxStrays && fl.check != nil:
		n.close(t)
		n.next(fl, outcome{attempt: t.attempt, err: exchange.ErrStrays})
	case fl.isFinished || t.isProbe || fl.check != nil:
	case t.strays >= maxStrays:
		n.close(t)
		n.f.counts.moved.Add(1)
		if t.isUnread { // TCP is already in progress
			n.next(fl, outcome{attempt: t.attempt, err: exchange.ErrStrays})
			return
		}
		again := t.attempt
		again.tcp, again.isMoved = true, true
		n.next(fl, outcome{attempt: again, isRedo: true})
	case isUnreadable && !t.isUnread:
		t.isUnread = true
		n.next(fl, outcome{attempt: t.attempt, isInvalid: true, isUnreadable: true})
	case !isUnreadable && !t.isStrayReported && len(fl.route.servers) > 1:
		t.isStrayReported = true
		n.next(fl, outcome{attempt: t.attempt, isInvalid: true})
	}
}

// heard handles a parsed response of the given size.
func (n *lane) heard(t *try, m *dns.Msg, octets int, isStream bool) {
	fl, s, isTCP := t.fl, t.to, isStream && t.conn == nil && t.to.tls == nil
	if t.isGuarded && !isStream && !m.Truncated && s.CheckUDP(t.query, exchange.ParsedHasCase(t.query, m), exchange.CookieIn(m), t.hasMismatch, time.Now()) {
		n.mismatched(t)
		return
	}
	switch {
	case isTCP:
		s.follow(s.Heard(time.Now()))
		if t.isGuarded {
			s.CheckTCP(t.query, m, time.Now())
		}
	case isStream:
		s.follow(s.Succeeded(n.now.Sub(t.begun), m.Rcode, 0, time.Now()))
	default:
		s.follow(s.Succeeded(n.now.Sub(t.begun), m.Rcode, octets, time.Now()))
	}
	if fl.check != nil && !fl.isFinished { // any response ends a check
		n.close(t)
		n.finish(fl, flightResult{})
		return
	}
	if again, isRedo := n.wantsOtherwise(t, m, isStream); isRedo && !fl.isFinished {
		n.close(t)
		if t.isProbe {
			s.Late(time.Now())
			return
		}
		n.next(fl, outcome{attempt: again, isRedo: true})
		return
	}
	opt := m.IsEdns0()
	isFinal := exchange.Judge(m, false, true) == exchange.Final
	s.Learn(exchange.Parsed{
		Rcode: m.Rcode, IsFinal: isFinal, HasOPT: opt != nil,
		IsAgain: t.again && !t.tcp, IsWithoutEDNS: t.as == exchange.WithoutEDNS, RefusedEDNS: t.noEDNS,
	}, n.now)
	if !isFinal && !t.isOverdue {
		fl.route.tally(s).failed()
	}
	if opt != nil {
		exchange.KeepErrors(m, opt)
	}
	err := n.f.config.Ignore(m)
	switch {
	case isFinal && err == nil:
		keepAsked(m, fl.key.Question())
		n.answered(t, flightResult{msg: m, octets: octets})
	case fl.isFinished:
		n.close(t)
		n.clear(fl)
	case t.isProbe:
		n.close(t)
		s.Late(time.Now())
	default:
		n.close(t)
		o := outcome{attempt: t.attempt, msg: m, err: err}
		if err != nil {
			o.msg = nil
		}
		n.next(fl, o)
	}
}

// heardWire handles a simple response. size is its size over UDP, or 0 over TLS.
func (n *lane) heardWire(t *try, r dnswire.Response, size int) {
	t.to.follow(t.to.Answered(max(0, n.now.Sub(t.begun)), exchange.Rcode(r.Message), size, r.HasOPT, n.now))
	n.answered(t, flightResult{wire: r, octets: cmp.Or(size, t.fl.spent.Total())})
}

// wantsOtherwise reports whether the same server must be queried again in another way, and returns
// that attempt.
func (n *lane) wantsOtherwise(t *try, m *dns.Msg, isStream bool) (again attempt, isRedo bool) {
	again = t.attempt
	switch verdict := exchange.Judge(m, t.as != exchange.WithoutEDNS, isStream); {
	case !isStream && (verdict == exchange.OverTCP || exchange.IsBadCookie(t.query, m) && t.badCookie):
		again.tcp = true
	case !isStream && exchange.IsBadCookie(t.query, m):
		again.badCookie = true
	case verdict == exchange.NoEDNS && !isStream && len(exchange.CookieSent(t.query)) > 0: // the cookie may be what it rejected
		t.to.RefusedCookie(n.now)
	case verdict == exchange.NoEDNS:
		n.f.counts.withoutEDNS.Add(1)
		again.noEDNS = true
	default:
		return again, false
	}
	return again, true
}

// mismatched handles a response that failed the cookie or case check. The valid one may still
// arrive.
func (n *lane) mismatched(t *try) {
	n.f.counts.mismatched.Add(1)
	t.strays++
	isFirst := !t.hasMismatch && !t.fl.isFinished && !t.isProbe
	t.hasMismatch = true
	if t.strays >= maxStrays {
		n.close(t)
		n.clear(t.fl)
	}
	if isFirst {
		again := t.attempt
		again.tcp = true
		n.next(t.fl, outcome{attempt: again, isRedo: true})
	}
}

// failed handles a try that will get no response.
func (n *lane) failed(t *try, err error) {
	fl, s := t.fl, t.to
	switch {
	case fl.isFinished:
		n.close(t)
		n.clear(fl)
		return
	case t.conn != nil:
		n.lost(t, err)
		return
	case t.tcp && (t.again || fl.check != nil) && exchange.IsNetwork(err) && !exchange.IsLocal(err): // the host is alive, and may answer over UDP
		s.Reached(time.Now())
	case exchange.IsLocal(err):
		n.f.starved(err)
	case errors.Is(err, errUnsent):
	case t.isOverdue:
		s.failedAgain(err)
	default:
		s.failed(err)
		fl.route.tally(s).failed()
	}
	n.close(t)
	switch {
	case t.isProbe:
		if !exchange.IsLocal(err) {
			s.Late(time.Now())
		}
	case errors.Is(err, errUnsent):
		n.next(fl, outcome{attempt: t.attempt, err: exchange.ErrTimeout})
	default:
		n.next(fl, outcome{attempt: t.attempt, err: err})
	}
}

// lost handles a failure of the opportunistic TLS connection. The question goes out again without
// TLS, and the lost query does not count.
func (n *lane) lost(t *try, err error) {
	n.close(t)
	if u := t.to.upgrade.Load(); u != nil && errors.Is(err, exchange.ErrStreamEnded) {
		u.Lost(t.conn, err)
	}
	if t.isProbe {
		return
	}
	n.openRound(t.fl)
	t.fl.round.started--
	again := t.attempt
	again.inTheClear = true
	n.next(t.fl, outcome{attempt: again, isRedo: true})
}

// starved records a try without a socket, which is a fault of this host and not of a server. It
// logs the 1st, 2nd, 4th, 8th and so on: when descriptors run short, every client query may be one.
func (f *Forward) starved(err error) {
	if n := f.counts.starved.Add(1); n&(n-1) == 0 {
		f.config.Log.Error("no socket for an upstream query", "error", exchange.Reason(err), "times", n, journal.OutOfSockets.Attr())
	}
}
