package forward

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/dns/exchange"
	"github.com/node-dns/node-dns/internal/dns/health"
	"github.com/node-dns/node-dns/internal/sys/journal"
)

// A try is one query to one server, and the wait for its response.
type try struct {
	attempt
	fl     *flight // guarded by lane.mu; nil for an idle socket
	query  []byte  // as sent; over TCP and TLS with another ID
	as     exchange.Form
	begun  time.Time
	socket socket // over UDP

	conn *exchange.Stream // that of the server's upgrade, which the query goes over; nil: it goes another way
	stop func()           // ends it over TCP or TLS; nil: it goes over UDP

	isGuarded bool // the query has more to it than port and ID

	holds atomic.Int32 // of the sender, of the watcher until it closes the try, and of mail

	// The watcher's.
	strays      int  // messages that were not a valid response
	isSpoilt    bool // the round knows of the first stray
	isUnread    bool // a malformed response has come
	isDoubted   bool // a response failed the cookie or case check
	isJudged    bool // counted in the lateness of its server
	isLingering bool
	isClosed    bool
}

// maxStrays is the number of invalid responses that close a socket. Then the question moves to TCP, and so to another port. An attacker
// who knows the port gets three guesses at 65,536 IDs (RFC 5452 sections 4.2 and 9.3).
const maxStrays = 3

// newTryLocked creates a try and writes its query; send sends it. conn is the opportunistic TLS connection to use, or nil.
func (n *lane) newTryLocked(fl *flight, a attempt, conn *exchange.Stream) *try {
	f, s, now := n.f, a.to, fl.begun
	if len(fl.tries) > 0 || fl.round != nil {
		now = time.Now()
	}
	udp := f.udp.Load()
	var t *try
	if isUDP := s.tls == nil && conn == nil && !a.tcp; isUDP {
		t = n.newSocketLocked(s.Addr.Addr().Is4(), udp.HasPorts() || !s.isPlain())
	} else {
		t = &try{socket: socket{fd: -1, slot: -1}, conn: conn, stop: func() {}}
	}
	t.attempt, t.fl, t.begun = a, fl.hold(), now
	t.holds.Store(2)
	var silentSince time.Time
	if a.again {
		silentSince = fl.begun
	}
	t.as = s.form(silentSince, fl.key.WantsDNSSEC(), now)
	switch {
	case a.noEDNS:
		t.as = exchange.WithoutEDNS
	case conn != nil && t.as == exchange.WithEDNS:
		t.as = exchange.Padded
	}
	t.query = exchange.AppendQuery(t.query[:0], n.ids.Next(), fl.key, t.as, udp.Size)
	if t.isGuarded = udp.IsGuarded() && s.tls == nil && conn == nil; t.isGuarded {
		t.query = s.Guard(t.query, udp, !a.again, n.ids.Next, now)
	}
	return t
}

// send sends the query of a new try. It does not block. Only the watcher may call it for TCP and TLS.
func (n *lane) send(t *try) {
	defer n.drop(t)
	if t.again {
		t.to.Retried()
	}
	t.to.sent()
	switch {
	case t.stop == nil:
		if err := n.sendUDP(t); err != nil {
			n.post(mail{t: t, err: err})
		}
	case t.to.tls != nil:
		n.sendOn(t, t.to.tls)
	case t.conn != nil:
		n.sendOn(t, t.conn)
	default:
		n.sendTCP(t)
	}
}

// A carrier sends many questions over one connection.
type carrier interface {
	// begin queues the query. The carrier calls the waiter with the response, or when there will be no response. It does not block.
	Begin(*exchange.Waiter)
	// end forgets the waiter. It reports false if the waiter was called, or is about to be.
	End(*exchange.Waiter) bool
}

func (n *lane) sendOn(t *try, c carrier) {
	w := n.waiterFor(t)
	t.stop = func() {
		if c.End(w) {
			n.drop(t)
		}
	}
	c.Begin(w)
}

// waiterFor returns a waiter that mails the response to the watcher.
func (n *lane) waiterFor(t *try) *exchange.Waiter {
	t.holds.Add(1)
	return &exchange.Waiter{Query: slices.Clone(t.query), Spent: &t.fl.spent, Deliver: func(m *dns.Msg, err error) {
		n.post(mail{t: t, msg: m, err: err, isStream: true})
		n.drop(t)
	}}
}

// sendTCP asks over a new connection, on a goroutine. Truncated responses are rare, and a server cannot be about to close a new
// connection. Retries of silent questions share mostLastResorts connections.
func (n *lane) sendTCP(t *try) {
	f := n.f
	if t.again {
		select {
		case f.lastResorts <- struct{}{}:
		default:
			n.post(mail{t: t, err: errUnsent})
			return
		}
	}
	if t.fl.check == nil {
		f.counts.overTCP.Add(1)
	}
	ctx, cancel := context.WithDeadline(context.Background(), t.fl.begun.Add(n.lifeOf(t.fl)))
	t.stop = cancel
	w := n.waiterFor(t)
	f.work.Go(func() {
		defer cancel()
		if t.again {
			defer func() { <-f.lastResorts }()
		}
		var m *dns.Msg
		var err error
		defer func() { w.Deliver(m, err) }()
		defer f.recovered(func(e error) { m, err = nil, e })
		m, err = f.dialer.AskTCP(ctx, t.to.Server, w, func() { t.to.Reached(time.Now()) })
	})
}

// failed handles a try that will get no response.
func (n *lane) failed(t *try, err error) {
	fl, s := t.fl, t.to
	switch {
	case fl.hasLanded:
		n.close(t, nil)
		n.clear(fl)
		return
	case t.conn != nil:
		n.lost(t, err)
		return
	case t.tcp && (t.again || fl.check != nil) && exchange.IsNetwork(err) && !exchange.IsLocal(err): // the host is there, and may answer over UDP
		s.Reached(time.Now())
	case exchange.IsLocal(err):
		n.f.starved(err)
	case !errors.Is(err, errUnsent):
		s.failed(err)
	}
	n.close(t, nil)
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

// lost handles a failure of the opportunistic TLS connection. The question goes out again without TLS, and the lost query does not
// count.
func (n *lane) lost(t *try, err error) {
	n.close(t, nil)
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

// heard handles a parsed response.
func (n *lane) heard(t *try, m *dns.Msg, isStream bool) {
	fl, s, isTCP := t.fl, t.to, isStream && t.conn == nil && t.to.tls == nil
	if t.isGuarded && !isStream && !m.Truncated && s.Doubts(t.query, exchange.ParsedHasCase(t.query, m), exchange.CookieIn(m), t.isDoubted, time.Now()) {
		n.doubted(t)
		return
	}
	if isTCP {
		s.heardOverTCP()
		if t.isGuarded {
			s.Believes(t.query, m, time.Now())
		}
	} else {
		s.succeeded(n.now.Sub(t.begun), m.Rcode)
	}
	if fl.check != nil && !fl.hasLanded { // any response ends a check
		n.close(t, nil)
		n.land(fl, landing{})
		return
	}
	if again, isRedo := n.wantsOtherwise(t, m, isStream); isRedo && !fl.hasLanded {
		n.close(t, nil)
		if t.isProbe {
			s.Late(time.Now())
			return
		}
		n.next(fl, outcome{attempt: again, isRedo: true})
		return
	}
	opt := m.IsEdns0()
	isFinal := exchange.Judge(m, false, true) == exchange.Final
	s.Learn(health.Response{
		Rcode: m.Rcode, IsFinal: isFinal, HasOPT: opt != nil,
		IsAgain: t.again, IsWithoutEDNS: t.as == exchange.WithoutEDNS, RefusedEDNS: t.noEDNS,
	}, n.now)
	if opt != nil {
		exchange.KeepErrors(m, opt)
	}
	err := n.f.ignore(m)
	switch {
	case isFinal && err == nil:
		keepAsked(m, fl.key.Question())
		n.answered(t, landing{msg: m})
	case fl.hasLanded:
		n.close(t, nil)
		n.clear(fl)
	case t.isProbe:
		n.close(t, nil)
		s.Late(time.Now())
	default:
		n.close(t, nil)
		o := outcome{attempt: t.attempt, msg: m, err: err}
		if err != nil {
			o.msg = nil
		}
		n.next(fl, o)
	}
}

// wantsOtherwise reports whether the same server must be asked again in another way, and how.
func (n *lane) wantsOtherwise(t *try, m *dns.Msg, isStream bool) (again attempt, isRedo bool) {
	again = t.attempt
	switch verdict := exchange.Judge(m, t.as != exchange.WithoutEDNS, isStream); {
	case !isStream && (verdict == exchange.OverTCP || exchange.IsBadCookie(t.query, m) && t.badCookie):
		again.tcp = true
	case !isStream && exchange.IsBadCookie(t.query, m):
		again.badCookie = true
	case verdict == exchange.NoEDNS && !isStream && len(exchange.CookieSent(t.query)) > 0: // which is what it may not have liked
		t.to.RefusedCookie(n.now)
	case verdict == exchange.NoEDNS:
		n.f.counts.withoutEDNS.Add(1)
		again.noEDNS = true
	default:
		return again, false
	}
	return again, true
}

// doubted handles a response that failed the cookie or case check. The valid one may still come.
func (n *lane) doubted(t *try) {
	n.f.counts.doubted.Add(1)
	t.strays++
	isFirst := !t.isDoubted && !t.fl.hasLanded && !t.isProbe
	t.isDoubted = true
	if t.strays >= maxStrays {
		n.close(t, nil)
		n.clear(t.fl)
	}
	if isFirst {
		again := t.attempt
		again.tcp = true
		n.next(t.fl, outcome{attempt: again, isRedo: true})
	}
}

// receive reads the datagrams of a try until it has its answer or the socket is empty: epoll reports each datagram once.
func (n *lane) receive(t *try) {
	for !t.isClosed {
		buffer := n.poll.buffer
		size, errno := receiveFrom(t.socket.fd, buffer)
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
			exchange.SetTruncated(buffer) // more than was asked for
		}
		if r, ok := exchange.Simple(t.query, buffer[:size]); ok && t.isUsual() {
			if t.isGuarded && t.to.Doubts(t.query, exchange.HasCase(t.query, buffer), r.Cookie, t.isDoubted, time.Now()) {
				n.doubted(t)
				continue
			}
			t.to.answered(n.now, max(0, n.now.Sub(t.begun)), exchange.Rcode(r.Message), r.HasOPT)
			n.answered(t, landing{wire: r})
			continue
		}
		m, err := exchange.Decode(t.query, buffer[:size])
		if err == nil {
			n.heard(t, m, false)
			continue
		}
		n.f.counts.ignored.Add(1)
		n.strayed(t, exchange.IsUnreadable(err))
	}
}

// isUsual reports whether a response can skip the parsed path, because it teaches nothing about EDNS or cookies.
func (t *try) isUsual() bool { return t.fl.check == nil && !t.again && !t.noEDNS }

// strayed handles a message that is not a valid response. The valid one may still come, but another server is asked at once. The
// same server is not asked again over UDP: an attacker would have two ports to hit.
func (n *lane) strayed(t *try, isUnreadable bool) {
	fl := t.fl
	t.strays++
	switch {
	case t.strays >= maxStrays && fl.hasLanded:
		n.close(t, nil)
		n.clear(fl)
	case t.strays >= maxStrays && t.isProbe:
		n.close(t, nil)
		t.to.Late(time.Now())
	case t.strays >= maxStrays && fl.check != nil:
		n.close(t, nil)
		n.next(fl, outcome{attempt: t.attempt, err: exchange.ErrStrays})
	case fl.hasLanded || t.isProbe || fl.check != nil:
	case t.strays >= maxStrays:
		n.close(t, nil)
		n.f.counts.moved.Add(1)
		if t.isUnread { // TCP is already under way
			n.next(fl, outcome{attempt: t.attempt, err: exchange.ErrStrays})
			return
		}
		again := t.attempt
		again.tcp, again.isMoved = true, true
		n.next(fl, outcome{attempt: again, isRedo: true})
	case isUnreadable && !t.isUnread:
		t.isUnread = true
		n.next(fl, outcome{attempt: t.attempt, isSpoilt: true, isUnreadable: true})
	case !isUnreadable && !t.isSpoilt && len(fl.route.servers) > 1:
		t.isSpoilt = true
		n.next(fl, outcome{attempt: t.attempt, isSpoilt: true})
	}
}

// overdue accounts for a server that has answered no question since the flight began. It checks this server and the others of the
// route at the same time, so that several dead servers are found together.
func (n *lane) overdue(s *server, fl *flight) {
	_, conn := s.upgraded()
	if conn != nil && conn.WasHeard(fl.begun) || conn == nil && s.WasHeard(fl.begun) {
		return
	}
	n.wasSilent(s, n.now.Sub(fl.begun))
	n.check(s)
	for _, other := range fl.route.servers {
		n.check(other)
	}
}

// wasSilent accounts for a silent server. With opportunistic TLS it checks the connection first.
func (n *lane) wasSilent(s *server, after time.Duration) {
	if u, conn := s.upgraded(); conn != nil {
		u.Check(conn, n.f.tryTimeout)
		return
	}
	s.timedOut(after)
}

// close closes a try. err is errTimeout if a probe had its full time.
func (n *lane) close(t *try, err error) {
	if t.isClosed {
		return
	}
	t.isClosed = true
	fl := t.fl
	fl.tries = slices.DeleteFunc(fl.tries, func(other *try) bool { return other == t })
	if t.isLingering {
		n.lingering--
	}
	if t.isProbe {
		t.to.EndProbe()
		if err != nil && !fl.hasFailed && !fl.isLeft && !t.isJudged && !n.closing.Load() {
			t.to.Late(time.Now())
			n.wasSilent(t.to, n.now.Sub(t.begun))
			n.check(t.to)
		}
	}
	if t.stop != nil {
		t.stop()
	}
	n.drop(t)
}

// starved accounts for a try that this host had no socket for, which is no server's fault. It logs the 1st, 2nd, 4th, 8th …:
// where descriptors are short, each query of a client may be one.
func (f *Forward) starved(err error) {
	if n := f.counts.starved.Add(1); n&(n-1) == 0 {
		f.log.Error("no socket to ask a nameserver from", "error", exchange.Reason(err), "times", n, journal.OutOfSockets.Attr())
	}
}
