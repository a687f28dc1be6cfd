package forward

import (
	"errors"
	"net/netip"
	"slices"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/dnswire"
	"github.com/node-dns/node-dns/internal/dns/exchange"
	"github.com/node-dns/node-dns/internal/dns/health"
)

// The life of a question. It boards (flight.go): prepareLocked chooses the first server, and the caller sends the first query.
// Everything after that runs in this file, on the watcher of the lane:
//
//	answer -------------------------------------> answered -> land: waiters get it, the cache keeps it
//	silence, refusal, error, other way wanted --> next -> proceed: the round names the next try
//	no try left, no server there, or too late --> fail -> land: waiters get a refusal or an error
//
// Tries that are open when a flight lands stay open for a while. A late answer updates the health of its server, and the cache if
// the flight had failed.

// Bounds on what happens beside a question.
const (
	lingerShare = 16                     // one lingering try per lane for so many questions of MaxInFlight
	patience    = 400 * time.Millisecond // until the Handler may give out a stale answer
)

var (
	errFull   = errors.New("no room for another question")
	errUnsent = errors.New("too many connections")
)

// prepareLocked chooses the first server and writes the query, which the caller sends. It returns nil if the watcher begins all
// tries.
func (n *lane) prepareLocked(fl *flight) *try {
	first, wait, hasProbe := fl.route.choose(fl.begun)
	isLeftToWatcher := n.f.all.Load() || !first.isOverUDP()
	if isLeftToWatcher || hasProbe {
		n.postLocked(mail{fl: fl.hold()})
	}
	if isLeftToWatcher {
		n.setTimerLocked(fl, fl.begun.Add(n.f.deadline))
		return nil
	}
	fl.turnAt = fl.begun.Add(n.f.bounded(wait, len(fl.route.servers) == 1, 0))
	fl.first = first
	fl.tries = append(fl.tries, n.newTryLocked(fl, attempt{to: first}, nil))
	due := fl.turnAt
	if fl.hasStale && fl.releaseAt.Before(due) {
		due = fl.releaseAt
	}
	n.setTimerLocked(fl, due)
	return fl.tries[0]
}

// boarded begins what a flight needs besides its first query: all servers at once, or probes of demoted servers.
func (n *lane) boarded(fl *flight) {
	if fl.first == nil && !fl.hasLanded {
		n.openRound(fl)
		n.proceed(fl)
	}
	if fl.first == nil || fl.isLeft || n.closing.Load() {
		return
	}
	for _, s := range fl.route.servers {
		if s != fl.first && !fl.isTrying(s) && s.StartProbe(time.Now()) {
			n.try(fl, attempt{to: s, isProbe: true})
		}
	}
	if fl.hasLanded { // the first server was quick
		n.clear(fl)
	}
}

func (fl *flight) isTrying(s *server) bool {
	return slices.ContainsFunc(fl.tries, func(t *try) bool { return t.to == s })
}

// openRound creates the round, when the first query alone may not be enough.
func (n *lane) openRound(fl *flight) {
	if fl.round != nil {
		return
	}
	order := fl.order()
	fl.round = newRound(order)
	fl.round.all = n.f.all.Load()
	silence := n.f.silence
	switch {
	case fl.check != nil:
		fl.round.all = true
		fl.round.queue = checksOf(fl.check)
		fl.round.limit = len(fl.round.queue)
		silence = n.f.checkTime(fl.check)
	case order[0].State() == health.Down:
		silence /= 3
		fl.round.limit = max(2, len(order)) // all servers are down: one query to each is enough
	}
	fl.silentAt = fl.begun.Add(silence)
	if fl.first != nil {
		order[0].AskedAnyway(time.Now())
		fl.round.resume(fl.first)
	}
}

func (fl *flight) order() []*server {
	if fl.check != nil {
		return []*server{fl.check}
	}
	order, _ := inTurn(fl.route.servers)
	return order
}

// proceed begins the attempts that the round wants now, or ends the flight.
func (n *lane) proceed(fl *flight) {
	for {
		a, ok := fl.round.next()
		if !ok {
			break
		}
		fl.isHurried = false
		wait := n.f.waitFor(a.to, fl.round.again(), a.n)
		if fl.round.isBeforeLastResort() {
			wait = max(wait, n.f.silence/2)
		}
		fl.turnAt = n.now.Add(wait)
		if fl.check != nil {
			fl.turnAt = fl.begun.Add(n.f.checkWait(a.to))
		}
		n.try(fl, a)
	}
	if until := fl.begun.Add(n.f.tryTimeout); fl.round.refusal.msg != nil && fl.turnAt.After(until) {
		fl.turnAt = until // a refusal waits no longer than a query to another server would
	}
	if fl.round.over() && !n.mayBeRefuted(fl) {
		n.fail(fl)
		return
	}
	n.schedule(fl)
}

// mayBeRefuted reports whether a refusal must wait, because another server still has time to give a better answer.
func (n *lane) mayBeRefuted(fl *flight) bool {
	until := fl.begun.Add(n.f.tryTimeout)
	if len(fl.round.open) == 0 || !n.now.Before(until) {
		return false
	}
	fl.turnAt = until
	return true
}

// try begins an attempt.
func (n *lane) try(fl *flight, a attempt) {
	_, conn := a.to.upgraded()
	if a.inTheClear {
		conn = nil
	}
	n.mu.Lock()
	t := n.newTryLocked(fl, a, conn)
	n.mu.Unlock()
	fl.tries = append(fl.tries, t)
	n.send(t)
}

// next handles the outcome of an attempt that is not a final answer.
func (n *lane) next(fl *flight, o outcome) {
	n.openRound(fl)
	r := fl.round
	switch {
	case o.isUnreadable && r.besides(o):
	case o.isUnreadable:
	case o.isSpoilt:
		if o.n == r.current.n && r.fresh && !r.again() {
			r.goOn()
		}
	case o.isRedo:
		r.redo(o)
	default:
		r.ended(o)
	}
	n.proceed(fl)
}

// ring handles a flight whose timer has fired.
func (n *lane) ring(fl *flight) {
	if fl.hasLanded {
		n.clear(fl)
		return
	}
	now := n.now
	n.release(fl)
	n.openRound(fl)
	switch {
	case !now.Before(fl.begun.Add(n.lifeOf(fl))):
		n.fail(fl)
	case !now.Before(fl.silentAt) && n.isHopeless(fl):
		n.fail(fl)
	case !fl.turnAt.IsZero() && !now.Before(fl.turnAt):
		n.timeIsUp(fl)
	default:
		n.schedule(fl)
	}
}

// lifeOf returns the longest time that a flight lasts.
func (n *lane) lifeOf(fl *flight) time.Duration {
	if fl.check != nil {
		return max(alive*n.f.silence, n.f.checkTime(fl.check))
	}
	return n.f.deadline
}

// isHopeless reports whether all servers of the flight are known to be dead. It checks servers that were silent recently, and sets
// the time of the next look.
func (n *lane) isHopeless(fl *flight) bool {
	again := n.f.silence / 3
	fl.silentAt = n.now.Add(again)
	if fl.check != nil {
		return !fl.check.WasReached(fl.begun)
	}
	isHopeless := true
	for _, s := range fl.route.servers {
		if s.IsDead() {
			continue
		}
		isHopeless = false
		if !s.WasHeard(n.now.Add(-again)) {
			n.check(s)
		}
	}
	return isHopeless
}

// timeIsUp moves on to the next attempt when the current one has had its time.
func (n *lane) timeIsUp(fl *flight) {
	r := fl.round
	fl.turnAt = time.Time{}
	r.late = r.late || r.all
	if fl.check != nil {
		fl.check.follow(fl.check.FellSilent(fl.begun, time.Now()))
	}
	if !r.fresh || fl.check != nil {
		n.proceed(fl)
		return
	}
	s := r.current.to
	switch wasHeard := s.WasHeard(fl.begun); {
	case wasHeard && !fl.isHurried && !n.f.hedges.may(n.f.counts.asked.Load()):
		fl.isHurried = true
		fl.turnAt = n.now.Add(n.f.tryTimeout)
		n.schedule(fl)
		return
	case wasHeard && !fl.isHurried:
		fl.hedgedAt = r.current.n + 1
	}
	n.overdue(s, fl)
	r.timedOut()
	n.proceed(fl)
}

// schedule sets the timer of a flight to whatever is due first.
func (n *lane) schedule(fl *flight) {
	due := fl.begun.Add(n.lifeOf(fl))
	for _, at := range [...]time.Time{fl.turnAt, fl.silentAt} {
		if !at.IsZero() && at.Before(due) {
			due = at
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if fl.hasStale && fl.releaseAt.Before(due) {
		due = fl.releaseAt
	}
	n.setTimerLocked(fl, due)
}

// release hands queries that have waited long enough to the Handler, which may have a stale answer. The flight goes on.
func (n *lane) release(fl *flight) {
	n.mu.Lock()
	var waiting []*dnsserver.Later
	if !n.now.Before(fl.releaseAt) {
		waiting = fl.releaseLocked()
	}
	n.mu.Unlock()
	handle(waiting, &dnsserver.Tried{})
}

// releaseLocked returns and forgets the waiting Laters, if one of them may have a stale answer.
func (fl *flight) releaseLocked() (waiting []*dnsserver.Later) {
	if fl.hasStale {
		waiting, fl.waiting, fl.hasStale = fl.waiting, nil, false
	}
	return waiting
}

// answered handles a final response. It ends a flight that is under way.
func (n *lane) answered(t *try, l landing) {
	fl := t.fl
	l.from, l.sent = t.to, t.query
	took := n.now.Sub(t.begun)
	if fl.hasLanded {
		n.answeredLate(t, took, l)
		return
	}
	if !t.isJudged {
		t.to.KeepsUp(took, n.f.hedge, n.f.tryTimeout)
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
	if fl.hedgedAt > t.n && !t.isProbe && took < n.f.tryTimeout {
		n.f.hedges.waste(n.f.counts.asked.Load())
	}
	n.close(t, nil)
	n.land(fl, l)
}

// answeredLate handles a final response that came after the landing. If the flight had failed, the response goes to the cache.
func (n *lane) answeredLate(t *try, took time.Duration, l landing) {
	if t.isProbe && !t.isJudged && !t.to.KeepsUp(took, n.f.hedge, n.f.tryTimeout) {
		t.to.Late(time.Now())
	}
	t.isJudged = true
	fl := t.fl
	if fl.hasFailed && fl.isRaw {
		fl.hasFailed = false
		n.tell(fl, l, nil)
	}
	n.close(t, nil)
	n.clear(fl)
}

// A landing is the result of a flight: a response, parsed or not, or an error.
type landing struct {
	wire dnswire.Response // without msg
	sent []byte           // the query that wire answers
	msg  *dns.Msg
	from *server
	err  error
}

// fail ends a flight without a final response: with a refusal, or with an error that names the servers.
func (n *lane) fail(fl *flight) {
	fl.hasFailed = true
	if fl.round == nil {
		n.openRound(fl)
	}
	var l landing
	l.msg, l.from, l.err = fl.round.result(fl.key.Question())
	n.land(fl, l)
}

// land ends a flight: no more waiters join, and those that wait get the result.
func (n *lane) land(fl *flight, l landing) {
	if fl.hasLanded {
		return
	}
	fl.hasLanded = true
	isAll := len(fl.tries) == 0 // nothing stays open
	n.mu.Lock()
	if fl.isAsked {
		n.leaveLocked(fl)
	}
	if isAll {
		n.timers.remove(fl)
	}
	waiting, guests := fl.waiting, fl.guests
	fl.guests = nil
	fl.hasStale = false
	n.mu.Unlock()
	if fl.check != nil {
		n.checked(fl, l.err)
	}
	n.dismiss(fl, waiting, guests, l)
	if isAll {
		n.cleared(fl)
	} else {
		n.clear(fl)
	}
}

// dismiss charges the waiters and gives them the result.
func (n *lane) dismiss(fl *flight, waiting []*dnsserver.Later, guests []*guest, l landing) {
	for _, w := range waiting {
		n.f.charge(w.Client(), &fl.spent)
	}
	for _, g := range guests {
		n.f.charge(g.client, &fl.spent)
	}
	if l.err != nil {
		n.f.mayHaveComeBack(fl.joined)
	}
	if len(guests) > 0 {
		if l.err == nil && l.msg == nil {
			l.msg, l.err = l.parsed()
		}
		for _, g := range guests {
			g.from, g.err = l.from, l.err
			if l.err == nil {
				g.msg = l.msg.Copy()
			}
			close(g.done)
		}
	}
	if len(waiting) > 0 {
		n.tell(fl, l, waiting)
	}
}

// charge tells what was spent on a client's question. Each who waits for the answer is charged in full: it would have been spent for it alone.
func (f *Forward) charge(client netip.Addr, s *exchange.Spending) {
	if octets := s.Total(); octets > 0 {
		f.spent(client, octets)
	}
}

func (l landing) parsed() (*dns.Msg, error) {
	wire := slices.Clone(l.wire.Message)
	wire[10], wire[11] = 0, 0 // the OPT record is gone, and there is nothing else in the additional section
	return exchange.Decode(l.sent, wire)
}

// tell delivers a final response to the waiting queries and the cache. Anything else goes to the Handler.
func (n *lane) tell(fl *flight, l landing, waiting []*dnsserver.Later) {
	if l.err == nil && (l.msg == nil || l.msg.IsEdns0() == nil && exchange.Judge(l.msg, false, true) == exchange.Final) {
		n.f.deliver(Reply{
			Msg: l.msg, Wire: l.wire, From: l.from.handle, At: n.now, Tag: fl.tag, Waiting: waiting, Out: &n.out,
			Query: dnsserver.WireQuery{Msg: l.sent, End: exchange.QuestionEnd(l.sent), DO: fl.key.WantsDNSSEC()},
		})
		return
	}
	tried := &dnsserver.Tried{Msg: l.msg, Err: l.err}
	if l.err == nil {
		tried.Server = l.from.Server
	}
	handle(waiting, tried)
}

// clear closes the tries of a landed flight that have lingered long enough, and releases the flight after the last one.
func (n *lane) clear(fl *flight) {
	if !fl.hasLanded {
		return
	}
	var due time.Time
	for _, t := range slices.Clone(fl.tries) {
		until := n.lingerUntil(t)
		switch {
		case !n.now.Before(until):
			n.close(t, exchange.ErrTimeout)
			continue
		case !t.isLingering && !t.isProbe && n.lingering >= int(n.f.flights.max.Load()/lingerShare)+1:
			n.close(t, nil)
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

// cleared releases a landed flight without open tries.
func (n *lane) cleared(fl *flight) {
	if !fl.isCleared {
		fl.isCleared = true
		n.letGo(fl)
	}
}

// lingerUntil returns how long a try stays open after the landing. A probe has the time of an attempt.
func (n *lane) lingerUntil(t *try) time.Time {
	switch {
	case n.closing.Load() || t.stop != nil || t.fl.isLeft:
		return n.now
	case t.isProbe:
		return t.begun.Add(max(n.f.tryTimeout, 2*t.to.Usual()))
	}
	return t.fl.begun.Add(n.lifeOf(t.fl))
}

func handle(waiting []*dnsserver.Later, tried *dnsserver.Tried) {
	for _, l := range waiting {
		l.Handle(tried)
	}
}
