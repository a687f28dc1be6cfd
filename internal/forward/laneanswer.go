package forward

import (
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dnsserver"
	"github.com/node-dns/node-dns/internal/dnswire"
	"github.com/node-dns/node-dns/internal/nameserver"
)

// A Reply is what an upstream nameserver answers to a question that Ask has asked.
type Reply struct {
	Msg  *dns.Msg         // final, without OPT record but for Extended DNS Errors; nil: it was not parsed
	Wire dnswire.Response // without Msg; its octets are the receiver's until it returns
	From nameserver.Handle
	At   time.Time // when it came; zero: now
	Tag  uint64    // that of the first query that asked; 0: the Handler did
	// Waiting are the queries with that question. Who gets the Reply ends them before returning, and sets each to nil before
	// it does: after a panic the others are still to be ended.
	Waiting []*dnsserver.Later
	// Out is flushed when all that has come with the Reply has been seen.
	Out *dnsserver.Outgoing
}

// answeredSimply is called with a response that is not parsed. If it is over the question is another's now.
func (n *lane) answeredSimply(a *asking, r dnswire.Response) (isOver bool) {
	waiting, fl, ok := n.take(a)
	if fl != nil {
		if m, err := decode(a.query, r.Message); err == nil {
			return n.answered(a, m)
		}
		return false
	}
	a.server.answered(n.now, max(0, n.now.Sub(a.begun)), rcodeOf(r.Message), r.HasOPT)
	if ok {
		n.reply(a, waiting, Reply{Wire: r, At: n.now})
	}
	return ok
}

// answered is answeredSimply for a response that was parsed.
func (n *lane) answered(a *asking, m *dns.Msg) (isOver bool) {
	a.server.succeeded(time.Since(a.begun), m.Rcode)
	verdict := judge(m, true, false)
	switch {
	case isBadCookie(a.query, m):
		n.redo(a, attempt{badCookie: true})
		return false
	case verdict != noEDNS:
	case len(cookieSent(a.query)) > 0: // which is what it may not have liked
		a.server.learn(func(h *health) { h.cookie.forget(time.Now()) })
		n.redo(a, attempt{})
		return false
	default:
		n.redo(a, attempt{noEDNS: true})
		return false
	}
	opt := m.IsEdns0()
	a.server.learn(func(h *health) {
		if verdict != overTCP {
			h.heard(m.Rcode, verdict == final)
		}
		if opt != nil {
			h.sawEDNS()
		}
	})
	if opt != nil {
		keepErrors(m, opt)
	}
	if verdict == overTCP {
		n.redo(a, attempt{tcp: true})
		return false
	}
	o := outcome{attempt: attempt{to: a.server}, msg: m, err: n.f.ignore(m)}
	if verdict != final || o.err != nil || m.IsEdns0() != nil { // it says why
		n.goOn(a, o)
		return false
	}
	waiting, fl, ok := n.take(a)
	switch {
	case fl != nil:
		fl.report(o)
	case ok:
		keepAsked(m, questionOfKey(a.key))
		n.reply(a, waiting, Reply{Msg: m})
	}
	return ok
}

// doubted is called with a response that may not be the server's.
func (n *lane) doubted(a *asking) {
	n.f.counts.doubted.Add(1)
	n.redo(a, attempt{tcp: true})
}

// redo has the server be asked once more, in the way that it wants.
func (n *lane) redo(a *asking, how attempt) {
	how.to = a.server
	n.goOn(a, outcome{attempt: how, isRedo: true})
}

// reply gives those who have waited the answer.
func (n *lane) reply(a *asking, waiting []*dnsserver.Later, r Reply) {
	r.From, r.Tag, r.Waiting, r.Out = a.server.handle, a.tag, waiting, &n.out
	n.f.deliver(r)
	n.drop(a)
}

// failed is called when no response comes.
func (n *lane) failed(a *asking, err error) {
	a.server.failed(err)
	n.goOn(a, outcome{attempt: attempt{to: a.server}, err: err})
}

// goOn has a flight do what is to be done after that outcome, as it is no answer for those who wait.
func (n *lane) goOn(a *asking, o outcome) {
	if fl := n.f.follow(n, a); fl != nil {
		fl.report(o)
	}
}

func handle(waiting []*dnsserver.Later, tried *dnsserver.Tried) {
	for _, l := range waiting {
		l.Handle(tried)
	}
}
