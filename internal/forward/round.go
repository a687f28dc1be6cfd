package forward

import (
	"slices"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dnsserver"
)

// Bounds of what one question may cause, however many servers there are and
// however they fail (law of every fan-out attack since NXNSAttack).
const (
	maxServers = 8 // asked for one question
	minTries   = 4 // of the same servers, when packets get lost
)

// An attempt is one try with one server.
type attempt struct {
	to    *server
	again bool // it was silent to this question before

	// What it has said already.
	tcp    bool // the answer is to be had over TCP
	noEDNS bool // it does not take EDNS
	// badCookie: it has refused the cookie that it was sent, and told which one it wants.
	badCookie bool
	n         int // which attempt of the round it is, from 0
}

// An outcome is how an attempt ended: with a response or an error.
type outcome struct {
	attempt
	msg *dns.Msg
	err error
}

// A round decides whom to ask next for one question, and what the client gets
// when nobody gave a final response. It has no sockets and no clock: its user
// reports what happened.
//
// Each server is asked in turn: the next one when the one before it fails, or is
// silent for the time of a try. Who was silent is waited for all the same, and
// asked again when all were asked, while the question has less than minTries.
type round struct {
	queue   []attempt // to be started, in order
	limit   int       // attempts that may start
	started int
	open    int // attempts that have no outcome

	current attempt
	fresh   bool // current still has time
	all     bool // all of the queue at first are started at once
	late    bool // an attempt's time is up

	refusal outcome   // the last presentable response that was not final
	misses  []outcome // why the others have none
}

func newRound(order []*server) *round {
	order = order[:min(len(order), maxServers)]
	r := &round{limit: max(len(order), minTries), queue: make([]attempt, len(order), len(order)+minTries)}
	for i, s := range order {
		r.queue[i] = attempt{to: s}
	}
	return r
}

// resume begins after what was tried: that server has had its turn, unless it is not asked any more.
func (r *round) resume(tried *dnsserver.Tried) {
	i := slices.IndexFunc(r.queue, func(a attempt) bool { return a.to.Server == tried.Server })
	if i < 0 {
		return
	}
	r.current = r.queue[i]
	r.queue = slices.Delete(r.queue, i, i+1)
	if tried.Truncated || tried.NoEDNS || tried.BadCookie {
		r.queue = slices.Insert(r.queue, 0, attempt{to: r.current.to, tcp: tried.Truncated, noEDNS: tried.NoEDNS, badCookie: tried.BadCookie})
		return
	}
	r.started++
	r.open++
	if tried.IsSilent() {
		r.timedOut()
		r.open--
		return
	}
	r.ended(outcome{attempt: r.current, msg: copyOf(tried.Msg), err: tried.Err})
}

// copyOf copies what was said to several queries: each may become a flight, whose message is its own.
func copyOf(m *dns.Msg) *dns.Msg {
	if m == nil {
		return nil
	}
	return m.Copy()
}

// next returns the attempt to start now; false means to wait, or that the round
// is over.
func (r *round) next() (attempt, bool) {
	if r.fresh && !r.all || len(r.queue) == 0 || r.started == r.limit {
		return attempt{}, false
	}
	r.current = r.queue[0]
	r.current.n = r.started
	r.queue = r.queue[1:]
	r.started++
	r.open++
	r.fresh = true
	return r.current, true
}

// ended takes an outcome that is not final.
func (r *round) ended(o outcome) {
	r.open--
	if o.n == r.current.n {
		r.fresh = false
	}
	if o.err == nil && presentable(o.msg) {
		r.refusal = o
		return
	}
	r.misses = append(r.misses, o)
}

// timedOut says that the current attempt's time is up. When another server has
// refused already, then this one only held up the refusal: it gets no second
// question.
func (r *round) timedOut() {
	r.fresh, r.late = false, true
	r.misses = append(r.misses, outcome{attempt: r.current, err: errTimeout})
	if r.refusal.msg == nil {
		r.queue = append(r.queue, attempt{to: r.current.to, again: true})
	}
}

// over reports whether nothing is to be expected any more, once next has nothing
// to start: no attempt is open, or those that are had their time and there is a
// response to give.
func (r *round) over() bool {
	timeIsUp := !r.fresh
	if r.all {
		timeIsUp = r.late
	}
	return r.open == 0 || timeIsUp && r.refusal.msg != nil
}
