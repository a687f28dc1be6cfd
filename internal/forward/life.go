package forward

import (
	"errors"
	"slices"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dnsserver"
	"github.com/node-dns/node-dns/internal/dnswire"
)

// The life of a question. It boards (flight.go): its first server is chosen, and whoever brought it sends the first query. What
// happens then happens in this file, on the watcher of the lane:
//
//	answer in time ------------------------------------------> landed, remembered by whoever gets the Reply
//	silence, refusal, error, redo -> proceed: the round says whom to ask next, and how -> tries
//	nothing more to expect, or too late ---------------------> landed with a failure
//
// Tries that are open when a flight lands stay open for a while: what comes late tells of its server, and is remembered.

// How long what is open stays so after the landing, and how much of it.
const (
	lingerShare = 16                     // a lane's tries: one for so many questions that may be in flight
	patience    = 400 * time.Millisecond // after which the Handler may have a stale answer for those who wait
)

var (
	errFull   = errors.New("no room for another question")
	errUnsent = errors.New("too many connections")
	errStrays = errors.New("too many messages that are no response")
)

// prepareLocked chooses the first server, and writes the query to it, which is to be sent; nil: the watcher begins all.
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

// boarded begins what a flight needs beside its first query: all servers at once, or probes of those that are behind.
func (n *lane) boarded(fl *flight) {
	if fl.first == nil && !fl.hasLanded {
		n.openRound(fl)
		n.proceed(fl)
	}
	if fl.first == nil || fl.isLeft || n.closing.Load() {
		return
	}
	for _, s := range fl.route.servers {
		if s != fl.first && !fl.isTrying(s) && s.startProbe() {
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

// openRound is called when more than the first query may be needed.
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
	case order[0].isDown():
		silence /= 3
		fl.round.limit = max(2, len(order)) // all of them are down: once each will do
	}
	fl.silentAt = fl.begun.Add(silence)
	if fl.first != nil {
		order[0].isProbe()
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

// proceed begins what the round says is next, or ends the flight.
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
		fl.turnAt = until // who refuses has no more to wait for than others would be asked for
	}
	if fl.round.over() && !n.mayBeRefuted(fl) {
		n.fail(fl)
		return
	}
	n.schedule(fl)
}

// mayBeRefuted reports whether a refusal is to wait: who is late by no more than others would be asked for may have the answer
// that it is not.
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

// next is called when an attempt ends, or is to be followed by another one.
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

// ring is called when a flight is due.
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

// lifeOf is how long a flight lasts at most.
func (n *lane) lifeOf(fl *flight) time.Duration {
	if fl.check != nil {
		return max(alive*n.f.silence, n.f.checkTime(fl.check))
	}
	return n.f.deadline
}

// isHopeless reports whether nothing is to be expected, as no server of the flight is there. One that has said nothing of late, to
// whatever question, is checked; and the flight is looked at again later.
func (n *lane) isHopeless(fl *flight) bool {
	again := n.f.silence / 3
	fl.silentAt = n.now.Add(again)
	if fl.check != nil {
		return !fl.check.wasReached(fl.begun)
	}
	isHopeless := true
	for _, s := range fl.route.servers {
		if s.isDead() {
			continue
		}
		isHopeless = false
		if !s.wasHeard(n.now.Add(-again)) {
			n.check(s)
		}
	}
	return isHopeless
}

// timeIsUp is called when the current attempt has had its time.
func (n *lane) timeIsUp(fl *flight) {
	r := fl.round
	fl.turnAt = time.Time{}
	r.late = r.late || r.all
	if fl.check != nil {
		fl.check.fallSilent(fl.begun)
	}
	if !r.fresh || fl.check != nil {
		n.proceed(fl)
		return
	}
	s := r.current.to
	switch wasHeard := s.wasHeard(fl.begun); {
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

// schedule has the flight looked at when something is due.
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

// release has the Handler answer those who may have a stale answer, once they have waited for long. The flight goes on.
func (n *lane) release(fl *flight) {
	n.mu.Lock()
	var waiting []*dnsserver.Later
	if !n.now.Before(fl.releaseAt) {
		waiting = fl.releaseLocked()
	}
	n.mu.Unlock()
	handle(waiting, &dnsserver.Tried{})
}

// releaseLocked returns all who wait in Laters, if one of them may have a stale answer.
func (fl *flight) releaseLocked() (waiting []*dnsserver.Later) {
	if fl.hasStale {
		waiting, fl.waiting, fl.hasStale = fl.waiting, nil, false
	}
	return waiting
}

// answered is called with a final response: that of a flight which is under way ends it.
func (n *lane) answered(t *try, l landing) {
	fl := t.fl
	l.from, l.sent = t.to, t.query
	took := n.now.Sub(t.begun)
	if fl.hasLanded {
		n.answeredLate(t, took, l)
		return
	}
	if !t.isJudged {
		t.to.keepsUp(took, n.f.hedge, n.f.tryTimeout)
	}
	t.isJudged = true
	if fl.round != nil && !t.isProbe {
		for _, s := range fl.round.slower(t.n) {
			s.late()
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

// answeredLate accounts for a response that came when the flight had landed. It is remembered where there was none.
func (n *lane) answeredLate(t *try, took time.Duration, l landing) {
	if t.isProbe && !t.isJudged && !t.to.keepsUp(took, n.f.hedge, n.f.tryTimeout) {
		t.to.late()
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

// A landing is what came of a flight: a response, parsed or not, or an error.
type landing struct {
	wire dnswire.Response // without msg
	sent []byte           // the query that wire answers
	msg  *dns.Msg
	from *server
	err  error
}

// fail ends a flight that has no final response: with a refusal, or with an error that names the servers.
func (n *lane) fail(fl *flight) {
	fl.hasFailed = true
	if fl.round == nil {
		n.openRound(fl)
	}
	var l landing
	l.msg, l.from, l.err = fl.round.result(questionOfKey(fl.key))
	n.land(fl, l)
}

// land ends a flight, so that nobody boards any more, and tells those who wait.
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

// dismiss charges and tells those who have waited.
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

func (l landing) parsed() (*dns.Msg, error) {
	wire := slices.Clone(l.wire.Message)
	wire[10], wire[11] = 0, 0 // the OPT record is gone, and there is nothing else in the additional section
	return decode(l.sent, wire)
}

// tell gives a response to those who wait for it, and to be remembered; or has the Handler say what came instead.
func (n *lane) tell(fl *flight, l landing, waiting []*dnsserver.Later) {
	if l.err == nil && (l.msg == nil || l.msg.IsEdns0() == nil && judge(l.msg, false, true) == final) {
		n.f.deliver(Reply{
			Msg: l.msg, Wire: l.wire, From: l.from.handle, At: n.now, Tag: fl.tag, Waiting: waiting, Out: &n.out,
			Query: dnsserver.WireQuery{Msg: l.sent, End: questionEnd(l.sent), DO: fl.key[0]&keyDO != 0},
		})
		return
	}
	tried := &dnsserver.Tried{Msg: l.msg, Err: l.err}
	if l.err == nil {
		tried.Server = l.from.Server
	}
	handle(waiting, tried)
}

// clear closes what has been open for long enough after a landing, and lets go of the flight when nothing is.
func (n *lane) clear(fl *flight) {
	if !fl.hasLanded {
		return
	}
	var due time.Time
	for _, t := range slices.Clone(fl.tries) {
		until := n.lingerUntil(t)
		switch {
		case !n.now.Before(until):
			n.close(t, errTimeout)
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

// cleared lets go of a flight of which nothing is open any more.
func (n *lane) cleared(fl *flight) {
	if !fl.isCleared {
		fl.isCleared = true
		n.letGo(fl)
	}
}

// lingerUntil is how long a try stays open that nobody waits for. A probe has as long as an attempt would have.
func (n *lane) lingerUntil(t *try) time.Time {
	switch {
	case n.closing.Load() || t.stop != nil || t.fl.isLeft:
		return n.now
	case t.isProbe:
		return t.begun.Add(max(n.f.tryTimeout, 2*t.to.usual()))
	}
	return t.fl.begun.Add(n.lifeOf(t.fl))
}

func handle(waiting []*dnsserver.Later, tried *dnsserver.Tried) {
	for _, l := range waiting {
		l.Handle(tried)
	}
}
