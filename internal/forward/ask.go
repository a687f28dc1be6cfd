package forward

import (
	"context"
	"slices"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dnsserver"
	"github.com/node-dns/node-dns/internal/journal"
)

// ask asks the servers of r until one gives a final response or ctx ends. tried is what was asked before; nil: nothing.
func (f *Forward) ask(ctx context.Context, q question, r *route, tried *dnsserver.Tried) (*dns.Msg, *server, error) {
	order, down := byHealth(r.servers)
	if len(down) < len(order) {
		for _, s := range down {
			f.probe(s, q)
		}
	}
	round := newRound(order)
	round.all = f.all.Load()
	if tried != nil {
		round.resume(tried)
	}
	outcomes := make(chan outcome, round.limit) // never blocks a try that nobody waits for
	timer := time.NewTimer(f.tryTimeout)
	defer timer.Stop()
	for {
		if a, ok := round.next(); ok {
			timer.Reset(f.tryTimeout)
			f.work.Go(func() {
				o := outcome{attempt: a}
				defer func() { outcomes <- o }()
				defer f.recovered(func(err error) { o.err = err })
				o.msg, o.err = f.try(ctx, q, a)
			})
			if round.all {
				continue
			}
		} else if round.over() {
			return round.result(q)
		}
		select {
		case o := <-outcomes:
			if o.err == nil && judge(o.msg, false, true) == final {
				keepRelated(o.msg, q.name)
				return o.msg, o.to, nil
			}
			round.ended(o)
		case <-timer.C:
			round.current.to.timedOut(f.tryTimeout)
			f.check(round.current.to)
			round.timedOut()
		case <-ctx.Done():
			return round.result(q)
		}
	}
}

// probe asks a server that is down what another one is asked for the client, to
// see whether it is back. It costs the client no time, and the network one query
// in each backoff. The response is not used.
func (f *Forward) probe(s *server, q question) {
	if !s.startProbe() {
		return
	}
	f.work.Go(func() {
		defer s.endProbe()
		defer f.recovered(func(error) {})
		ctx, cancel := context.WithTimeout(context.Background(), f.tryTimeout)
		defer cancel()
		if _, err := f.try(ctx, q, attempt{to: s}); err != nil && ctx.Err() != nil {
			s.timedOut(f.tryTimeout)
		}
	})
}

// check asks a server that was silent for the root's nameservers, which every nameserver knows or refuses to say, in half
// the time of a try. So one whose clients ask for names that take it longer than a try is not taken for dead: it went down
// and up in the log, and out of turn, all the time. One that is dead is found out half a try later for it.
func (f *Forward) check(s *server) {
	if !s.startCheck() {
		return
	}
	f.work.Go(func() {
		defer f.recovered(func(error) { s.endCheck(false) })
		ctx, cancel := context.WithTimeout(context.Background(), f.tryTimeout/2)
		defer cancel()
		q := question{name: ".", qtype: dns.TypeNS, qclass: dns.ClassINET, rd: true}
		_, err := f.try(ctx, q, attempt{to: s})
		silent := err != nil && ctx.Err() != nil
		s.endCheck(silent)
		if silent {
			s.timedOut(f.tryTimeout / 2)
		}
	})
}

// try asks one server once, which takes up to three messages: over TCP when the
// response was truncated, without EDNS when the server does not take it.
func (f *Forward) try(ctx context.Context, q question, a attempt) (*dns.Msg, error) {
	as := a.to.form(a.again)
	if a.again {
		a.to.learn(func(h *health) { h.retries++ })
	}
	var msg *dns.Msg
	var err error
	refused := a.noEDNS
	if !refused {
		msg, err = f.exchange(ctx, q, a, as)
		refused = err == nil && as != withoutEDNS && judge(msg, true, true) == noEDNS
	}
	if refused {
		f.counts.withoutEDNS.Add(1)
		msg, err = f.exchange(ctx, q, a, withoutEDNS)
	}
	if err == nil {
		if why := f.ignore(msg); why != nil {
			return nil, why
		}
	}
	if err != nil {
		if isLocal(err) {
			f.starved(err)
		}
		if ctx.Err() == nil {
			a.to.failed(err)
		}
		return nil, err
	}
	opt := msg.IsEdns0()
	isFinal := judge(msg, false, true) == final
	a.to.learn(func(h *health) {
		h.heard(msg.Rcode, isFinal)
		switch {
		case opt != nil:
			h.sawEDNS()
		case refused && isFinal:
			h.avoidEDNS(time.Now())
		case a.again && as == withoutEDNS && isFinal:
			h.silentToEDNS(time.Now())
		}
		if a.again && isFinal && h.cookie.size > clientCookie {
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

// exchange sends the question to s and returns the response to it, whole.
func (f *Forward) exchange(ctx context.Context, q question, a attempt, as form) (*dns.Msg, error) {
	s := a.to
	udp := *f.udp.Load()
	query, err := q.wire(as, udp.Size)
	if err != nil {
		return nil, err
	}
	isGuarded := udp.isGuarded() && s.tls == nil
	if isGuarded {
		query = s.guard(query, &udp, !a.again, newID, time.Now())
	}
	if a.tcp {
		return f.exchangeTCP(ctx, s, query, isGuarded)
	}
	begin := time.Now()
	s.sent()
	if s.tls != nil {
		msg, err := s.tls.exchange(ctx, query)
		if err == nil {
			s.succeeded(time.Since(begin))
		}
		return msg, err
	}
	msg, err := f.askUDP(ctx, s.Server, udp, query)
	if err != nil {
		return nil, err
	}
	if isGuarded && !msg.Truncated && s.doubts(query, parsedHasCase(query, msg), cookieIn(msg)) {
		f.counts.doubted.Add(1)
		return f.exchangeTCP(ctx, s, query, isGuarded)
	}
	s.succeeded(time.Since(begin))
	hadCookie := len(cookieSent(query)) > 0
	switch verdict := judge(msg, as != withoutEDNS, false); {
	case verdict == overTCP, isBadCookie(query, msg) && a.badCookie:
		return f.exchangeTCP(ctx, s, query, isGuarded)
	case isBadCookie(query, msg):
		a.badCookie = true
		return f.exchange(ctx, q, a, as)
	case verdict == noEDNS && hadCookie: // which is what it may not have liked
		s.learn(func(h *health) { h.cookie.forget(time.Now()) })
		return f.exchange(ctx, q, a, as)
	}
	return msg, nil
}

func (f *Forward) exchangeTCP(ctx context.Context, s *server, query []byte, isGuarded bool) (*dns.Msg, error) {
	f.counts.overTCP.Add(1)
	s.sent()
	msg, err := f.askTCP(ctx, s.Server, query)
	if err == nil && isGuarded {
		s.believes(query, msg)
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
