package forward

import (
	"net/netip"
	"slices"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/dnswire"
	"github.com/node-dns/node-dns/internal/dns/exchange"
)

// flightResult is the result of a flight: a response, parsed or not, or an error.
type flightResult struct {
	wire dnswire.Response // without msg
	sent []byte           // the query that wire answers
	msg  *dns.Msg
	from *server
	err  error

	octets int // size of the response on the wire
}

// answered handles a final response. It ends the flight if it is still in progress.
func (n *lane) answered(t *try, l flightResult) {
	fl := t.fl
	t.isAnswered = true
	l.from, l.sent = t.to, t.query
	fl.noteAnswer(t, l)
	took := n.now.Sub(t.begun)
	if fl.isFinished {
		n.answeredLate(t, took, l)
		return
	}
	if !t.isJudged {
		t.to.KeepsUp(took, n.f.config.Hedge, n.f.config.TryTimeout)
	}
	t.isJudged = true
	if fl.round != nil && !t.isProbe {
		for _, s := range fl.round.slower(t.n) {
			s.Late(time.Now())
		}
		for _, other := range fl.tries {
			other.isJudged = other.isJudged || !other.isProbe && other.n < t.n
		}
	}
	if fl.hedgedAt > t.n && !t.isProbe && took < n.f.config.TryTimeout {
		n.f.hedges.Waste(n.f.counts.asked.Load())
	}
	n.close(t)
	fl.octets = l.octets
	n.finish(fl, l)
}

// answeredLate handles a final response that arrives after the flight has ended. If the flight
// failed, the cache gets the response.
func (n *lane) answeredLate(t *try, took time.Duration, l flightResult) {
	if t.isProbe && !t.isJudged && !t.to.KeepsUp(took, n.f.config.Hedge, n.f.config.TryTimeout) {
		t.to.Late(time.Now())
	}
	t.isJudged = true
	fl := t.fl
	if fl.hasFailed && fl.isRaw {
		fl.hasFailed = false
		n.tell(fl, l, nil)
	}
	n.close(t)
	n.clear(fl)
}

// fail ends a flight without a final response: with a refusal, or with an error that names the
// servers.
func (n *lane) fail(fl *flight) {
	fl.hasFailed = true
	if fl.round == nil {
		n.openRound(fl)
	}
	var l flightResult
	l.msg, l.from, l.err = fl.round.result(fl.key.Question())
	n.finish(fl, l)
}

// finish ends a flight: no more waiters join, and the waiters get the result.
func (n *lane) finish(fl *flight, l flightResult) {
	if fl.isFinished {
		return
	}
	fl.isFinished = true
	isAll := len(fl.tries) == 0 // nothing stays open
	n.mu.Lock()
	if fl.isAsked {
		n.leaveLocked(fl)
	}
	if isAll {
		n.timers.remove(fl)
	}
	waiting, callers := fl.waiting, fl.callers
	fl.callers, fl.hasStale = nil, false
	n.mu.Unlock()
	if fl.check != nil {
		n.checked(fl, l.err)
	}
	n.notifyWaiters(fl, waiting, callers, l)
	if isAll {
		n.cleared(fl)
	} else {
		n.clear(fl)
	}
}

// checked records the result of a check.
func (n *lane) checked(fl *flight, err error) {
	s := fl.check
	isOpen := func(t *try) bool { return t.stop == nil || s.tls != nil } // UDP, where silence is the only sign of a dead server
	isSilent := err != nil && !s.WasHeard(fl.begun) && slices.ContainsFunc(fl.tries, isOpen)
	s.EndCheck(isSilent)
	if isSilent {
		s.timedOut(n.now.Sub(fl.begun))
	}
}

// notifyWaiters charges the waiters for the upstream traffic and gives them the result.
func (n *lane) notifyWaiters(fl *flight, waiting []*dnsserver.PendingQuery, callers []*caller, l flightResult) {
	for _, w := range waiting {
		n.f.charge(w.Client(), &fl.spent)
	}
	for _, g := range callers {
		n.f.charge(g.client, &fl.spent)
	}
	if l.err != nil {
		n.f.suspectLoop(fl.joined)
	}
	if len(callers) > 0 {
		if l.err == nil && l.msg == nil {
			l.msg, l.err = l.parsed()
		}
		whole := l.msg
		if whole != nil && len(waiting) > 0 {
			whole = whole.Copy() // tell gives l.msg away
		}
		short := dnswire.Shorten(whole, fl.key.Question().Name)
		for i, g := range callers {
			g.msg, g.from, g.err = whole, l.from, l.err
			if i > 0 && g.isUDP { // the first one's cache gets the whole answer
				g.msg = short
			}
			close(g.done)
		}
	}
	if len(waiting) > 0 {
		n.tell(fl, l, waiting)
	}
}

// charge reports the traffic that a client's question caused. Each waiter is charged in full, as if
// it were the only one.
func (f *Forward) charge(client netip.Addr, s *exchange.Spending) {
	if octets := s.Total(); octets > 0 {
		f.config.Spent(client, octets)
	}
}

func (l flightResult) parsed() (*dns.Msg, error) {
	wire := slices.Clone(l.wire.Message)
	wire[10], wire[11] = 0, 0 // the OPT record is removed, and the additional section has nothing else
	return exchange.Decode(l.sent, wire)
}

// tell passes a final response to the waiting queries and the cache. Any other result goes to the
// Handler.
func (n *lane) tell(fl *flight, l flightResult, waiting []*dnsserver.PendingQuery) {
	if l.err == nil && (l.msg == nil || l.msg.IsEdns0() == nil && exchange.Judge(l.msg, false, true) == exchange.Final) {
		q := dnsserver.WireQuery{Msg: l.sent, End: exchange.QuestionEnd(l.sent), DO: fl.key.WantsDNSSEC()}
		if len(waiting) > 0 {
			q.Mark = waiting[0].Query().Mark
		}
		n.f.deliver(Reply{Msg: l.msg, Wire: l.wire, From: l.from.handle, At: n.now, Tag: fl.tag, Query: q, Waiting: waiting, Out: &n.out})
		return
	}
	tried := &dnsserver.UpstreamResult{Msg: l.msg, Err: l.err, Tag: fl.tag}
	if l.err == nil {
		tried.Server = l.from.Server
	}
	dnsserver.HandleAll(waiting, tried)
}

// deliver calls Config.Answered. After a panic it passes the remaining queries to the Handler.
func (f *Forward) deliver(r Reply) {
	defer f.recovered(func(error) {
		for _, l := range r.Waiting {
			if l != nil {
				l.Handle(nil)
			}
		}
	})
	f.config.Answered(r)
}

// clear closes the tries of an ended flight whose linger time is over. After the last one it
// releases the flight.
func (n *lane) clear(fl *flight) {
	if !fl.isFinished {
		return
	}
	var due time.Time
	for _, t := range slices.Clone(fl.tries) {
		until := n.lingerUntil(t)
		switch {
		case !n.now.Before(until):
			n.expire(t)
			continue
		case !t.isLingering && !t.isProbe && n.lingering >= int(n.f.flights.max.Load()/lingerShare)+1:
			n.close(t)
			continue
		case !t.isLingering:
			t.isLingering = true
			n.lingering++
		}
		if due.IsZero() || until.Before(due) {
			due = until
		}
	}
	n.mu.Lock()
	n.setTimerLocked(fl, due)
	n.mu.Unlock()
	if len(fl.tries) == 0 {
		n.cleared(fl)
	}
}

// expire closes a try whose time is over. An unanswered probe counts as silence. For any other try,
// if the flight's response fit its size, the response was lost.
func (n *lane) expire(t *try) {
	fl, s, took := t.fl, t.to, n.now.Sub(t.begun)
	isOpen := !t.isClosed && !fl.isLeft && !n.closing.Load()
	isSilent := t.isProbe && isOpen && !fl.hasFailed && !t.isJudged
	isLost := !t.isProbe && isOpen && 0 < fl.octets && fl.octets <= int(t.size) && s.WasHeard(t.begun)
	n.close(t)
	if isLost {
		s.follow(s.Lost(fl.octets, n.f.config.Deadline, time.Now()))
	}
	if isSilent {
		s.Late(time.Now())
		n.wasSilent(s, took)
		n.check(s)
	}
}

// cleared releases an ended flight without open tries.
func (n *lane) cleared(fl *flight) {
	if !fl.isCleared {
		fl.isCleared = true
		n.releaseFlight(fl)
	}
}

// lingerUntil returns the time until which a try stays open after its flight has ended. A probe
// stays as long as an attempt.
func (n *lane) lingerUntil(t *try) time.Time {
	switch {
	case n.closing.Load() || t.stop != nil || t.fl.isLeft:
		return n.now
	case t.isProbe:
		return t.begun.Add(max(n.f.config.TryTimeout, 2*t.to.Usual()))
	}
	return t.fl.begun.Add(n.lifeOf(t.fl))
}

// lingerShare is the number of questions in MaxInFlight per lingering try of a lane.
const lingerShare = 16
