package forward

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/journal"
)

// A try asks one server once, which takes up to three messages: over TCP when the response was truncated, without EDNS when
// the server does not take it.
type try struct {
	f *Forward
	q question
	attempt
	spent    *spending             // nil: it is not counted
	messages *atomic.Int32         // that were sent for the question; nil: they are not counted
	spoilt   func(unreadable bool) // is called when a message comes that is not the response; nil: not called
}

// maysend counts a message.
func (t *try) maySend() bool { return t.messages == nil || t.messages.Add(1) <= maxTries }

func (t *try) run(ctx context.Context) (*dns.Msg, error) {
	as := t.to.form(t.again)
	if t.again {
		t.to.learn(func(h *health) { h.retries++ })
	}
	var msg *dns.Msg
	var err error
	refused := t.noEDNS
	if !refused {
		msg, err = t.exchange(ctx, as)
		refused = err == nil && as != withoutEDNS && judge(msg, true, true) == noEDNS
	}
	if refused {
		t.f.counts.withoutEDNS.Add(1)
		msg, err = t.exchange(ctx, withoutEDNS)
	}
	if err == nil {
		if why := t.f.ignore(msg); why != nil {
			return nil, why
		}
	}
	if err != nil {
		if isLocal(err) {
			t.f.starved(err)
		}
		if ctx.Err() == nil && !errors.Is(err, errSpent) {
			t.to.failed(err)
		}
		return nil, err
	}
	opt := msg.IsEdns0()
	isFinal := judge(msg, false, true) == final
	t.to.learn(func(h *health) {
		h.heard(msg.Rcode, isFinal)
		switch {
		case opt != nil:
			h.sawEDNS()
		case refused && isFinal:
			h.avoidEDNS(time.Now())
		case t.again && as == withoutEDNS && isFinal:
			h.silentToEDNS(time.Now())
		}
		if t.again && isFinal && h.cookie.size > clientCookie {
			h.cookie.silentTo(time.Now())
		}
	})
	if opt != nil {
		keepErrors(msg, opt)
	}
	return msg, nil
}

// starved accounts for a try that this host had no socket for, which is no server's fault. It logs the 1st, 2nd, 4th, 8th …:
// where descriptors are short, each query of a client may be one.
func (f *Forward) starved(err error) {
	if n := f.counts.starved.Add(1); n&(n-1) == 0 {
		f.log.Error("no socket to ask a nameserver from", "error", shortReason(err), "times", n, journal.OutOfSockets.Attr())
	}
}

// exchange sends the question and returns the response to it, whole.
func (t *try) exchange(ctx context.Context, as form) (*dns.Msg, error) {
	s, udp := t.to, *t.f.udp.Load()
	if msg, isAsked, err := t.exchangeUpgraded(ctx, as); isAsked {
		return msg, err
	}
	query, err := t.q.wire(as, udp.Size)
	if err != nil {
		return nil, err
	}
	isGuarded := udp.isGuarded() && s.tls == nil
	if isGuarded {
		query = s.guard(query, &udp, !t.again, newID, time.Now())
	}
	if t.tcp {
		return t.exchangeTCP(ctx, query, isGuarded)
	}
	if !t.maySend() {
		return nil, errSpent
	}
	begin := time.Now()
	s.sent()
	if s.tls != nil {
		msg, err := s.tls.exchange(ctx, query, t.spent)
		if err == nil {
			s.succeeded(time.Since(begin), msg.Rcode)
		}
		return msg, err
	}
	msg, err := t.f.askUDP(ctx, s.Server, udp, query, t.spoilt)
	if err != nil {
		return nil, err
	}
	if isGuarded && !msg.Truncated && s.doubts(query, parsedHasCase(query, msg), cookieIn(msg)) {
		t.f.counts.doubted.Add(1)
		return t.exchangeTCP(ctx, query, isGuarded)
	}
	s.succeeded(time.Since(begin), msg.Rcode)
	hadCookie := len(cookieSent(query)) > 0
	switch verdict := judge(msg, as != withoutEDNS, false); {
	case verdict == overTCP, isBadCookie(query, msg) && t.badCookie:
		return t.exchangeTCP(ctx, query, isGuarded)
	case isBadCookie(query, msg):
		t.badCookie = true
		return t.exchange(ctx, as)
	case verdict == noEDNS && hadCookie: // which is what it may not have liked
		s.learn(func(h *health) { h.cookie.forget(time.Now()) })
		return t.exchange(ctx, as)
	}
	return msg, nil
}

// exchangeUpgraded asks over the connection of the server's upgrade. False: there is none, or it has ended, and the question goes
// in the clear; what was sent with it does not count.
func (t *try) exchangeUpgraded(ctx context.Context, as form) (msg *dns.Msg, isAsked bool, err error) {
	u, conn := t.to.upgraded()
	if conn == nil {
		return nil, false, nil
	}
	if !t.maySend() {
		return nil, true, errSpent
	}
	if as == withEDNS {
		as = padded
	}
	query, err := t.q.wire(as, t.f.udp.Load().Size)
	if err != nil {
		return nil, true, err
	}
	begin := time.Now()
	t.to.sent()
	switch msg, err = conn.exchange(ctx, query, t.spent); {
	case err == nil:
		t.to.succeeded(time.Since(begin), msg.Rcode)
		return msg, true, nil
	case ctx.Err() != nil:
		return nil, true, err
	case errors.Is(err, errStreamEnded):
		u.lost(conn, err)
	}
	if t.messages != nil {
		t.messages.Add(-1)
	}
	return nil, false, nil
}

func (t *try) exchangeTCP(ctx context.Context, query []byte, isGuarded bool) (*dns.Msg, error) {
	if !t.maySend() {
		return nil, errSpent
	}
	t.tcp = true
	t.f.counts.overTCP.Add(1)
	t.to.sent()
	msg, err := t.f.askTCP(ctx, t.to.Server, query, t.spent)
	if err == nil && isGuarded {
		t.to.believes(query, msg)
	}
	return msg, err
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
