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

	"github.com/node-dns/node-dns/internal/journal"
)

// A try is one query to one server, and the wait for its response.
type try struct {
	attempt
	fl     *flight // guarded by lane.mu; nil: nobody's
	query  []byte  // as sent; over TCP and TLS with another ID
	as     form
	begun  time.Time
	socket socket // over UDP

	conn *stream // that of the server's upgrade, which the query goes over; nil: it goes another way
	stop func()  // ends it over TCP or TLS; nil: it goes over UDP

	isGuarded bool // the query has more to it than port and ID

	holds atomic.Int32 // by whoever sends it, by the watcher until it closes it, and by mail

	// The watcher's.
	strays      int  // messages that came and are no response
	isSpoilt    bool // of which the round has been told
	isUnread    bool // a response that cannot be read has come
	isDoubted   bool // a response that may not be the server's has come
	isJudged    bool // the server was judged by how long this took
	isLingering bool
	isClosed    bool
}

// maxStrays is how many messages that are no response a socket takes. Then the question moves to TCP, and so to another port: whoever
// knows the port, and tries IDs, has three of 65,536 (RFC 5452 section 4.2 and 9.3).
const maxStrays = 3

// newTryLocked makes a try, and writes its query. send sends it. conn is the connection of the server's upgrade that it goes over; nil: it
// goes another way.
func (n *lane) newTryLocked(fl *flight, a attempt, conn *stream) *try {
	f, s, now := n.f, a.to, fl.begun
	if len(fl.tries) > 0 || fl.round != nil {
		now = time.Now()
	}
	udp := f.udp.Load()
	var t *try
	if isUDP := s.tls == nil && conn == nil && !a.tcp; isUDP {
		t = n.newSocketLocked(s.Addr.Addr().Is4(), udp.hasPorts() || !s.isPlain())
	} else {
		t = &try{socket: socket{fd: -1, slot: -1}, conn: conn, stop: func() {}}
	}
	t.attempt, t.fl, t.begun = a, fl.hold(), now
	t.holds.Store(2)
	var silentSince time.Time
	if a.again {
		silentSince = fl.begun
	}
	t.as = s.form(silentSince, fl.key[0]&keyDO != 0, now)
	switch {
	case a.noEDNS:
		t.as = withoutEDNS
	case conn != nil && t.as == withEDNS:
		t.as = padded
	}
	t.query = appendQuery(t.query[:0], n.ids.next(), fl.key, t.as, udp.Size)
	if t.isGuarded = udp.isGuarded() && s.tls == nil && conn == nil; t.isGuarded {
		t.query = s.guard(t.query, udp, !a.again, n.ids.next, now)
	}
	return t
}

// send sends the query of a new try, over what its server takes. It does not wait. Over TCP and TLS it is the watcher's.
func (n *lane) send(t *try) {
	defer n.drop(t)
	if t.again {
		t.to.learn(func(h *health) { h.retries++ })
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

// A carrier takes many questions at a time over one connection.
type carrier interface {
	// begin has the query sent, and the waiter called when its response comes, or none will. It does not wait.
	begin(*waiter)
	// end forgets the waiter; false: it has been called, or is about to be.
	end(*waiter) bool
}

func (n *lane) sendOn(t *try, c carrier) {
	w := n.waiterFor(t)
	t.stop = func() {
		if c.end(w) {
			n.drop(t)
		}
	}
	c.begin(w)
}

// waiterFor has the watcher told what comes over a connection.
func (n *lane) waiterFor(t *try) *waiter {
	t.holds.Add(1)
	return &waiter{query: slices.Clone(t.query), spent: &t.fl.spent, deliver: func(m *dns.Msg, err error) {
		n.post(mail{t: t, msg: m, err: err, isStream: true})
		n.drop(t)
	}}
}

// sendTCP asks over a connection of its own, on a goroutine of its own: truncated responses are rare, and a fresh connection cannot
// be one that the server is about to close. Names that are silent take few.
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
		defer func() { w.deliver(m, err) }()
		defer f.recovered(func(e error) { m, err = nil, e })
		m, err = f.askTCP(ctx, t.to, w)
	})
}

// failed is called when a try has no response, and never will.
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
	case t.tcp && (t.again || fl.check != nil) && isNetwork(err) && !isLocal(err): // it is there, and may answer over UDP
		s.reached()
	case isLocal(err):
		n.f.starved(err)
	case !errors.Is(err, errUnsent):
		s.failed(err)
	}
	n.close(t, nil)
	switch {
	case t.isProbe:
		if !isLocal(err) {
			s.late()
		}
	case errors.Is(err, errUnsent):
		n.next(fl, outcome{attempt: t.attempt, err: errTimeout})
	default:
		n.next(fl, outcome{attempt: t.attempt, err: err})
	}
}

// lost is called when the connection of a server's upgrade has no answer. In the clear there may be one yet, and what was sent does not
// count.
func (n *lane) lost(t *try, err error) {
	n.close(t, nil)
	if u := t.to.upgrade.Load(); u != nil && errors.Is(err, errStreamEnded) {
		u.lost(t.conn, err)
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

// heard is called with a response that was parsed.
func (n *lane) heard(t *try, m *dns.Msg, isStream bool) {
	fl, s, isTCP := t.fl, t.to, isStream && t.conn == nil && t.to.tls == nil
	if t.isGuarded && !isStream && !m.Truncated && s.doubts(t.query, parsedHasCase(t.query, m), cookieIn(m)) {
		n.doubted(t)
		return
	}
	if isTCP {
		s.heardOverTCP()
		if t.isGuarded {
			s.believes(t.query, m)
		}
	} else {
		s.succeeded(n.now.Sub(t.begun), m.Rcode)
	}
	if fl.check != nil && !fl.hasLanded { // whatever it says
		n.close(t, nil)
		n.land(fl, landing{})
		return
	}
	if again, isRedo := n.wantsOtherwise(t, m, isStream); isRedo && !fl.hasLanded {
		n.close(t, nil)
		if t.isProbe {
			s.late()
			return
		}
		n.next(fl, outcome{attempt: again, isRedo: true})
		return
	}
	opt := m.IsEdns0()
	isFinal := judge(m, false, true) == final
	s.learn(func(h *health) {
		h.heard(m.Rcode, isFinal)
		switch {
		case opt != nil:
			h.sawEDNS()
		case t.noEDNS && isFinal:
			h.avoidEDNS(n.now)
		case t.again && t.as == withoutEDNS && isFinal:
			h.silentToEDNS(n.now)
		}
		if t.again && isFinal && h.cookie.size > clientCookie {
			h.cookie.silentTo(n.now)
		}
	})
	if opt != nil {
		keepErrors(m, opt)
	}
	err := n.f.ignore(m)
	switch {
	case isFinal && err == nil:
		keepAsked(m, questionOfKey(fl.key))
		n.answered(t, landing{msg: m})
	case fl.hasLanded:
		n.close(t, nil)
		n.clear(fl)
	case t.isProbe:
		n.close(t, nil)
		s.late()
	default:
		n.close(t, nil)
		o := outcome{attempt: t.attempt, msg: m, err: err}
		if err != nil {
			o.msg = nil
		}
		n.next(fl, o)
	}
}

// wantsOtherwise says how the same server is to be asked again for its answer; false: it is not.
func (n *lane) wantsOtherwise(t *try, m *dns.Msg, isStream bool) (again attempt, isRedo bool) {
	again = t.attempt
	switch verdict := judge(m, t.as != withoutEDNS, isStream); {
	case !isStream && (verdict == overTCP || isBadCookie(t.query, m) && t.badCookie):
		again.tcp = true
	case !isStream && isBadCookie(t.query, m):
		again.badCookie = true
	case verdict == noEDNS && !isStream && len(cookieSent(t.query)) > 0: // which is what it may not have liked
		t.to.learn(func(h *health) { h.cookie.forget(n.now) })
	case verdict == noEDNS:
		n.f.counts.withoutEDNS.Add(1)
		again.noEDNS = true
	default:
		return again, false
	}
	return again, true
}

// doubted is called with a response that may not be the server's. The right one may come yet.
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

// receive takes what has come for a try over UDP, until it has its answer or there is no more: the kernel tells of each once.
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
			buffer[2] |= bitTC // more than was asked for
		}
		if r, ok := simple(t.query, buffer[:size]); ok && t.isUsual() {
			if t.isGuarded && t.to.doubts(t.query, hasCase(t.query, buffer), r.Cookie) {
				n.doubted(t)
				continue
			}
			t.to.answered(n.now, max(0, n.now.Sub(t.begun)), rcodeOf(r.Message), r.HasOPT)
			n.answered(t, landing{wire: r})
			continue
		}
		m, err := decode(t.query, buffer[:size])
		if err == nil {
			n.heard(t, m, false)
			continue
		}
		n.f.counts.ignored.Add(1)
		n.strayed(t, isUnreadable(err))
	}
}

// isUsual reports whether a response tells nothing about the server but that it answers.
func (t *try) isUsual() bool { return t.fl.check == nil && !t.again && !t.noEDNS }

// strayed is called with what is no response to the question. The right one may come yet; but if this is all that the server
// sends, another is better asked at once. The same one is not over UDP: who forges responses would have two questions to hit.
func (n *lane) strayed(t *try, isUnreadable bool) {
	fl := t.fl
	t.strays++
	switch {
	case t.strays >= maxStrays && fl.hasLanded:
		n.close(t, nil)
		n.clear(fl)
	case t.strays >= maxStrays && t.isProbe:
		n.close(t, nil)
		t.to.late()
	case t.strays >= maxStrays && fl.check != nil:
		n.close(t, nil)
		n.next(fl, outcome{attempt: t.attempt, err: errStrays})
	case fl.hasLanded || t.isProbe || fl.check != nil:
	case t.strays >= maxStrays:
		n.close(t, nil)
		n.f.counts.moved.Add(1)
		if t.isUnread { // it is asked over TCP already
			n.next(fl, outcome{attempt: t.attempt, err: errStrays})
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

// overdue accounts for a server that said nothing in the time it had, to whatever question. Whether it is there is found out, and of
// those that are asked after it too, so that their silence is not known one after the other.
func (n *lane) overdue(s *server, fl *flight) {
	_, conn := s.upgraded()
	if conn != nil && conn.wasHeard(fl.begun) || conn == nil && s.wasHeard(fl.begun) {
		return
	}
	n.wasSilent(s, n.now.Sub(fl.begun))
	n.check(s)
	for _, other := range fl.route.servers {
		n.check(other)
	}
}

// wasSilent accounts for a server that said nothing for so long, if it is not the connection of its upgrade that is silent, which
// is found out.
func (n *lane) wasSilent(s *server, after time.Duration) {
	if u, conn := s.upgraded(); conn != nil {
		u.check(conn, n.f.tryTimeout)
		return
	}
	s.timedOut(after)
}

// close ends the wait of a try. err is errTimeout for a probe that had its time.
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
		t.to.endProbe()
		if err != nil && !fl.hasFailed && !fl.isLeft && !t.isJudged && !n.closing.Load() {
			t.to.late()
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
		f.log.Error("no socket to ask a nameserver from", "error", shortReason(err), "times", n, journal.OutOfSockets.Attr())
	}
}

// keepErrors leaves nothing of the OPT record but its Extended DNS Errors, which
// tell people why (RFC 8914). All else in it is between the upstream and us (RFC 6891
// section 6.1.1); dnsserver makes the one for the client.
func keepErrors(m *dns.Msg, opt *dns.OPT) {
	m.Extra = slices.DeleteFunc(m.Extra, func(rr dns.RR) bool { return rr.Header().Rrtype == dns.TypeOPT })
	opt.Option = slices.DeleteFunc(opt.Option, func(o dns.EDNS0) bool { return o.Option() != dns.EDNS0EDE })
	if len(opt.Option) > 0 {
		m.Extra = append(m.Extra, opt)
	}
}
