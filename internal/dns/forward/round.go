package forward

import (
	"slices"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/exchange"
	"github.com/node-dns/node-dns/internal/dns/health"
)

// An attempt is one try with one server.
type attempt struct {
	to    *server
	again bool // it was silent to this question before

	// isSmall: a small response is asked for, as larger ones may get lost on the way (RFC 6891
	// section 6.2.5). With tcp: that one was truncated.
	isSmall bool

	// What it has said already.
	tcp    bool // the answer is to be had over TCP alone
	noEDNS bool // it does not take EDNS
	// badCookie: it has refused the cookie that it was sent, and sent the one that it wants.
	badCookie bool
	n         int // which attempt of the round it is, from 0
	// isMoved: UDP was given up after too many invalid responses.
	isMoved bool
	// inTheClear: the opportunistic TLS connection failed.
	inTheClear bool
	// isProbe: a demoted server is asked besides the round, to see whether it has recovered.
	isProbe bool
	// isBeside: the attempt before it, besideOf, goes on over UDP, where what came was unreadable.
	isBeside bool
	besideOf int
}

// isLastResort reports whether nothing that came over UDP leads to TCP.
func (a attempt) isLastResort() bool { return a.tcp && a.again && !a.isSmall }

// An outcome is how an attempt ended: with a response or an error; or that it goes on.
type outcome struct {
	attempt
	msg      *dns.Msg
	err      error
	isSpoilt bool // what came is no response: the attempt goes on, and so does the next
	// isUnreadable: it is spoilt by a response that cannot be read. TCP may have it whole.
	isUnreadable bool
	isRedo       bool // the same server is to be asked again, as the attempt says: of a lane, which does not
}

// maxTries bounds what one question may cause, however many servers there are and however they fail (law of every fan-out
// attack since NXNSAttack): attempts, and messages that leave, over TCP and without EDNS too.
const maxTries = 4

// A round chooses the next server for one question, and the client's response if no
// response was final. It has no sockets and no clock: its user reports what happened.
//
// Each server is asked in turn: the next one when the one before it fails, or is
// silent for its time. A silent server is waited for all the same. It is asked again after all
// servers were asked, while the question has had less than maxTries. The last try is over TCP, which
// passes where UDP is lost.
//
// A server that is asked again, and the third server after a silent one, are asked for a small
// response: a larger one may be lost because of its size, and a truncated one tells that the answer
// is to be had over TCP. One try is left for that.
type round struct {
	queue   []attempt // to be started, in order
	limit   int       // attempts that may start
	started int
	waited  []*server // those of the attempts that have not ended, or with a refusal, by n
	open    []int     // attempts that have no outcome, by n, and from which one is expected

	current attempt
	fresh   bool // current still has time
	all     bool // all of the queue at first are started at once
	late    bool // an attempt's time is up

	refusal outcome   // the last presentable response that was not final
	misses  []outcome // why the others have no response
}

func newRound(order []*server) *round {
	order = order[:min(len(order), maxTries)]
	r := &round{limit: maxTries, queue: make([]attempt, len(order), len(order)+maxTries)}
	for i, s := range order {
		r.queue[i] = attempt{to: s}
	}
	return r
}

// openRound creates the round, when the first query alone may not be enough.
func (n *lane) openRound(fl *flight) {
	if fl.round != nil {
		return
	}
	order := fl.order()
	fl.round = newRound(order)
	fl.round.all = n.f.all.Load()
	silence := n.f.config.Silence
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

// checksOf returns the attempts of a check, which all begin at once.
func checksOf(s *server) []attempt {
	if s.tls != nil {
		return []attempt{{to: s}}
	}
	return []attempt{{to: s, isSmall: true}, {to: s, tcp: true}}
}

// resume begins while a server is being asked, which is the first attempt.
func (r *round) resume(s *server) {
	r.queue = slices.DeleteFunc(r.queue, func(a attempt) bool { return a.to == s })
	r.queue = slices.Insert(r.queue, 0, attempt{to: s})
	r.next()
}

// next returns the attempt to start now; false means to wait, or that the round
// is over.
func (r *round) next() (attempt, bool) {
	if r.fresh && !r.all || len(r.queue) == 0 || r.started >= r.limit {
		return attempt{}, false
	}
	r.current = r.queue[0]
	r.current.n = len(r.waited)
	r.current.tcp = r.current.tcp || r.current.again && r.started == maxTries-1
	r.current.isSmall = r.current.isSmall || !r.current.tcp && (r.current.again || r.late && r.started == maxTries-2)
	r.queue = r.queue[1:]
	r.waited = append(r.waited, r.current.to)
	r.started++
	r.open = append(r.open, r.current.n)
	r.fresh = true
	return r.current, true
}

func (r *round) leave(attempt int) {
	r.open = slices.DeleteFunc(r.open, func(n int) bool { return n == attempt })
}

// again reports whether the server after the current one has been asked before.
func (r *round) again() bool { return len(r.queue) == 0 || r.queue[0].again }

// isBeforeLastResort reports whether the attempt after the current one is that over TCP.
func (r *round) isBeforeLastResort() bool {
	return r.started == maxTries-1 && r.limit == maxTries && r.again() && r.refusal.msg == nil
}

// slower returns the servers that were asked before attempt n, which gave the answer, and had no answer.
func (r *round) slower(n int) (all []*server) {
	if n >= len(r.waited) {
		return nil
	}
	for _, s := range r.waited[:n] {
		if s != nil && s != r.waited[n] && !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all
}

// ended takes an outcome that is not final.
func (r *round) ended(o outcome) {
	r.leave(o.n)
	switch {
	case o.isBeside && o.err == nil: // over TCP it said no more
		r.leave(o.besideOf)
	case (o.isBeside || o.isMoved) && r.refusal.msg == nil:
		r.queue = append(r.queue, attempt{to: o.to, again: true}) // what was unreadable may have been spoilt on its way
	}
	if o.n == r.current.n {
		r.fresh = false
	}
	if o.err != nil && !o.tcp {
		r.waited[o.n] = nil // the account of its failures says enough
	}
	if o.err == nil && exchange.IsPresentable(o.msg) {
		r.refusal = o
		return
	}
	r.misses = append(r.misses, o)
}

// redo has the same server be asked in the other way that it wants.
func (r *round) redo(o outcome) {
	r.leave(o.n)
	if o.n == r.current.n {
		r.fresh = false
	}
	r.waited[o.n] = nil
	r.limit = min(r.limit+1, maxTries) // where each is asked once it is the other one's turn all the same
	r.queue = slices.Insert(r.queue, 0, o.attempt)
}

// timedOut says that the current attempt's time is up. When another server has
// refused already, then this one only held up the refusal: it gets no second
// question.
func (r *round) timedOut() {
	r.late = true
	r.goOn()
}

// goOn has the next be asked beside the current one.
func (r *round) goOn() {
	r.fresh = false
	r.misses = append(r.misses, outcome{attempt: r.current, err: exchange.ErrTimeout})
	if r.refusal.msg == nil {
		r.queue = append(r.queue, attempt{to: r.current.to, again: true})
	}
}

// besides has a server whose response over UDP was unreadable be asked over TCP, too, if one more may be asked. The right one may come
// over UDP yet.
func (r *round) besides(o outcome) bool {
	limit := min(r.limit+1, maxTries)
	if r.started >= limit {
		return false
	}
	r.limit = limit
	r.queue = slices.Insert(r.queue, 0, attempt{to: o.to, tcp: true, isBeside: true, besideOf: o.n})
	if o.n == r.current.n {
		r.fresh = false
	}
	return true
}

// over reports whether nothing is to be expected any more, once next has nothing
// to start: no attempt is open, or those that are had their time and there is a
// response to give.
func (r *round) over() bool {
	timeIsUp := !r.fresh
	if r.all {
		timeIsUp = r.late
	}
	return len(r.open) == 0 || timeIsUp && r.refusal.msg != nil
}
