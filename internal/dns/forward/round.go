package forward

import (
	"slices"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/exchange"
)

// An attempt is one try with one server.
type attempt struct {
	to    *server
	again bool // the server did not answer this question before

	// isSmall requests a small response, because larger ones may get lost on the way (RFC 6891
	// section 6.2.5). With tcp set, the small one was truncated.
	isSmall bool

	// What the server has already shown.
	tcp    bool // only TCP gives the answer
	noEDNS bool // it rejects EDNS
	// badCookie: it rejected our cookie and sent the one that it wants.
	badCookie bool
	n         int // index of the attempt in the round, from 0
	// isMoved: the question left UDP after too many invalid responses.
	isMoved bool
	// inTheClear: the opportunistic TLS connection failed.
	inTheClear bool
	// isProbe: a demoted server is queried in addition to the round, to see whether it has
	// recovered.
	isProbe bool
	// isParallel: this attempt runs next to attempt parallelTo, which got an unreadable response
	// and continues over UDP.
	isParallel bool
	parallelTo int
}

// isLastResort reports whether the attempt uses TCP only because UDP was silent.
func (a attempt) isLastResort() bool { return a.tcp && a.again && !a.isSmall }

// An outcome is the result of an attempt: a response, an error, or a sign that it continues.
type outcome struct {
	attempt
	msg       *dns.Msg
	err       error
	isInvalid bool // an invalid response arrived; the attempt continues, and the next one begins
	// isUnreadable: the invalid response cannot be parsed. TCP may deliver it intact.
	isUnreadable bool
	isRedo       bool // query the same server again, as the attempt says; set by a lane, which does not do it itself
}

// maxTries is the maximum number of attempts for one question, and of messages sent for it,
// including those over TCP and without EDNS. It holds for any number of servers and any kind of
// failure. Every fan-out attack since NXNSAttack exploits the lack of such a limit.
const maxTries = 4

// A round chooses the next server for one question, and the client's response if no response was
// final. It has no sockets and no clock: its caller reports what happens.
//
// It queries each server in turn: the next one when the previous one fails or stays silent for its
// wait time. It still accepts a late response from a silent server. After all servers it starts
// over, until the question has had maxTries. The last try uses TCP, which gets through where UDP is
// lost.
//
// A server that is queried again, and the third server after a silent one, are asked for a small
// response. A larger one may be lost because of its size; a truncated one shows that TCP gives the
// answer. One try is reserved for that.
type round struct {
	queue   []attempt // to be started, in this order
	limit   int       // maximum number of attempts
	started int
	waited  []*server // by n: servers whose attempt is still open or ended with a refusal
	open    []int     // by n: attempts without an outcome that may still get one

	current attempt
	fresh   bool // the current attempt still has time
	all     bool // start the whole initial queue at once
	late    bool // the time of some attempt is over

	refusal outcome   // the last usable response that was not final
	misses  []outcome // why the other attempts have no response
}

func newRound(order []*server) *round {
	order = order[:min(len(order), maxTries)]
	r := &round{limit: maxTries, queue: make([]attempt, len(order), len(order)+maxTries)}
	for i, s := range order {
		r.queue[i] = attempt{to: s}
	}
	return r
}

// openRound creates the round when the first query may not be enough.
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
	case order[0].State() == exchange.Down:
		silence /= 3
		fl.round.limit = max(2, len(order)) // all servers are down: one query each is enough
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

// checksOf returns the attempts of a check, which all start at once.
func checksOf(s *server) []attempt {
	if s.tls != nil {
		return []attempt{{to: s}}
	}
	return []attempt{{to: s, isSmall: true}, {to: s, tcp: true}}
}

// resume starts the round with s as its first attempt, because s was already queried.
func (r *round) resume(s *server) {
	r.queue = slices.DeleteFunc(r.queue, func(a attempt) bool { return a.to == s })
	r.queue = slices.Insert(r.queue, 0, attempt{to: s})
	r.next()
}

// next returns the attempt to start now. It returns false if the caller must wait, or if the round
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

// again reports whether the next server in the queue has been queried before.
func (r *round) again() bool { return len(r.queue) == 0 || r.queue[0].again }

// isBeforeLastResort reports whether the next attempt is the last resort over TCP.
func (r *round) isBeforeLastResort() bool {
	return r.started == maxTries-1 && r.limit == maxTries && r.again() && r.refusal.msg == nil
}

// slower returns the servers that were queried before attempt n, which gave the answer, and that
// have not answered.
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

// ended records an outcome that is not final.
func (r *round) ended(o outcome) {
	r.leave(o.n)
	switch {
	case o.isParallel && o.err == nil: // over TCP it gave nothing better
		r.leave(o.parallelTo)
	case (o.isParallel || o.isMoved) && r.refusal.msg == nil:
		// The unreadable response may have been damaged on the way.
		r.queue = append(r.queue, attempt{to: o.to, again: true})
	}
	if o.n == r.current.n {
		r.fresh = false
	}
	if o.err != nil && !o.tcp {
		r.waited[o.n] = nil // already counted as a failure of the server
	}
	if o.err == nil && exchange.IsPresentable(o.msg) {
		r.refusal = o
		return
	}
	r.misses = append(r.misses, o)
}

// redo queries the same server again in the way that it requires.
func (r *round) redo(o outcome) {
	r.leave(o.n)
	if o.n == r.current.n {
		r.fresh = false
	}
	r.waited[o.n] = nil
	r.limit = min(r.limit+1, maxTries) // the retry must not use up another server's turn
	r.queue = slices.Insert(r.queue, 0, o.attempt)
}

// timedOut records that the time of the current attempt is over. If another server has already
// refused, this one only delayed the refusal, so it is not queried again.
func (r *round) timedOut() {
	r.late = true
	r.advance()
}

// advance makes the round query the next server while the current one stays open.
func (r *round) advance() {
	r.fresh = false
	r.misses = append(r.misses, outcome{attempt: r.current, err: exchange.ErrTimeout})
	if r.refusal.msg == nil {
		r.queue = append(r.queue, attempt{to: r.current.to, again: true})
	}
}

// retryOverTCP also queries a server over TCP after an unreadable response over UDP, if the limit
// allows another try. The right response may still arrive over UDP.
func (r *round) retryOverTCP(o outcome) bool {
	limit := min(r.limit+1, maxTries)
	if r.started >= limit {
		return false
	}
	r.limit = limit
	r.queue = slices.Insert(r.queue, 0, attempt{to: o.to, tcp: true, isParallel: true, parallelTo: o.n})
	if o.n == r.current.n {
		r.fresh = false
	}
	return true
}

// over reports whether no more results can be expected once next has nothing to start: no attempt
// is open, or all open ones had their time and there is a response to return.
func (r *round) over() bool {
	timeIsUp := !r.fresh
	if r.all {
		timeIsUp = r.late
	}
	return len(r.open) == 0 || timeIsUp && r.refusal.msg != nil
}
