package forward

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/journal"
)

// ask asks the servers of a flight's route until one gives a final response or ctx ends.
func (f *Forward) ask(ctx context.Context, fl *flight) (*dns.Msg, *server, error) {
	q := fl.key.question
	order, behind := inTurn(fl.route.servers)
	for _, s := range behind {
		f.probe(s, q)
	}
	order[0].isProbe()
	silence, round := f.silence, newRound(order)
	if order[0].isDown() { // all of them are: once each will do
		round.limit = max(2, len(round.queue))
		isLong, isVigil := order[0].beginVigil(silence)
		if isVigil {
			defer order[0].endVigil()
		}
		if !isLong {
			silence /= 3
		}
	}
	round.all = f.all.Load()
	timer, silent := time.NewTimer(0), time.NewTimer(silence-time.Since(fl.begun))
	defer timer.Stop()
	defer silent.Stop()
	isHurried := false // the time of the current attempt does not count
	if fl.asking != nil {
		round.resume(fl.asking.server)
		fl.messages.Add(1)
		timer.Reset(f.waitFor(round.current.to, round.again(), 0) - time.Since(fl.begun))
	}
	for {
		if a, ok := round.next(); ok {
			isHurried = false
			timer.Reset(f.waitFor(a.to, round.again(), a.n))
			f.start(ctx, fl, a)
			if round.all {
				continue
			}
		} else if round.over() {
			// Who is late by no more than others would be asked for may have the answer that the refusal is not.
			patience := f.tryTimeout - time.Since(fl.begun)
			if round.open == 0 || patience <= 0 {
				return round.result(q)
			}
			timer.Reset(patience)
		}
		select {
		case o := <-fl.outcomes:
			switch {
			case o.isSpoilt:
				if o.n == round.current.n && round.fresh && !round.again() {
					round.goOn()
				}
			case o.isRedo:
				round.redo(o)
			case o.err == nil && judge(o.msg, false, true) == final:
				for _, s := range round.slower(o) {
					s.late()
				}
				keepAsked(o.msg, q)
				return o.msg, o.to, nil
			default:
				round.ended(o)
			}
		case <-timer.C:
			if !round.fresh {
				break // it has ended
			}
			s := round.current.to
			if !isHurried && !f.mayHedge(s, fl.begun) {
				isHurried = true
				timer.Reset(f.tryTimeout)
				break
			}
			f.overdue(s, fl.begun)
			round.timedOut()
		case <-silent.C:
			if !slices.ContainsFunc(order, func(s *server) bool { return s.wasHeard(fl.begun) }) {
				return round.result(q)
			}
		case <-ctx.Done():
			if fl.evicted.Load() {
				return nil, nil, tooMany(q, int(f.flights.n.Load()))
			}
			return round.result(q)
		}
	}
}

// start begins an attempt.
func (f *Forward) start(ctx context.Context, fl *flight, a attempt) {
	f.work.Go(func() {
		t := try{f: f, q: fl.key.question, attempt: a, messages: &fl.messages}
		t.spoilt = sync.OnceFunc(func() { fl.report(outcome{attempt: a, isSpoilt: true}) })
		var o outcome
		defer func() {
			o.attempt = t.attempt
			fl.report(o)
		}()
		defer f.recovered(func(err error) { o.err = err })
		o.msg, o.err = t.run(ctx)
	})
}

// probe asks a server that is down, or late, what another one is asked for the client, to
// see whether it is back. It costs the client no time, and the network one query
// in each backoff. The response is not used.
func (f *Forward) probe(s *server, q question) {
	if !s.startProbe() {
		return
	}
	f.work.Go(func() {
		defer s.endProbe()
		defer f.recovered(func(error) {})
		ctx, cancel := context.WithTimeout(context.Background(), f.checkTime(s))
		defer cancel()
		begun, wait := time.Now(), f.waitFor(s, false, 0)
		m, err := (&try{f: f, q: q, attempt: attempt{to: s}}).run(ctx)
		if err != nil && ctx.Err() != nil {
			s.timedOut(f.checkTime(s))
		}
		if err != nil || judge(m, false, true) != final || time.Since(begun) > wait {
			s.late()
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
		ctx, cancel := context.WithTimeout(context.Background(), f.checkTime(s))
		defer cancel()
		q := question{name: ".", qtype: dns.TypeNS, qclass: dns.ClassINET, rd: true}
		_, err := (&try{f: f, q: q, attempt: attempt{to: s}}).run(ctx)
		silent := err != nil && ctx.Err() != nil
		s.endCheck(silent)
		if silent {
			s.timedOut(f.checkTime(s))
		}
	})
}

// checkTime is half the time of a try, or what a server that is far away needs.
func (f *Forward) checkTime(s *server) time.Duration { return max(f.tryTimeout/2, 2*s.wait()) }

// A try asks one server once, which takes up to three messages: over TCP when the response was truncated, without EDNS when
// the server does not take it.
type try struct {
	f *Forward
	q question
	attempt
	messages *atomic.Int32 // that were sent for the question; nil: they are not counted
	spoilt   func()        // is called when something comes that is no response; nil: nobody wants to know
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
		msg, err := s.tls.exchange(ctx, query)
		if err == nil {
			s.succeeded(time.Since(begin))
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
	s.succeeded(time.Since(begin))
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

func (t *try) exchangeTCP(ctx context.Context, query []byte, isGuarded bool) (*dns.Msg, error) {
	if !t.maySend() {
		return nil, errSpent
	}
	t.tcp = true
	t.f.counts.overTCP.Add(1)
	t.to.sent()
	msg, err := t.f.askTCP(ctx, t.to.Server, query)
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
