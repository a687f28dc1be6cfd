package forward

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnswire"
	"github.com/node-dns/node-dns/internal/dns/exchange"
)

var errUnsent = errors.New("too many connections")

// A try is one query to one server, and the wait for its response.
type try struct {
	attempt
	fl     *flight // as sent over UDP; over TCP and TLS the ID differs
	query  []byte  // as sent; over TCP and TLS with another ID
	as     exchange.Form
	size   uint16 // largest UDP response that the query allows; 0 without EDNS, or over another transport
	begun  time.Time
	socket socket // for UDP

	conn  *exchange.Stream // the opportunistic TLS connection of the query; nil for another transport
	begin func()           // sends the query over TLS; nil for another transport
	stop  func()           // cancels the query over TCP or TLS; nil for UDP

	isGuarded bool // the query has a cookie or mixed case, besides port and ID

	holds atomic.Int32 // number of holders: the sender, the watcher until it closes the try, and mail

	// Owned by the watcher.
	strays          int  // messages that were not a valid response
	isStrayReported bool // the first stray was reported to the round
	isUnread        bool // a malformed response has arrived
	hasMismatch     bool // a response failed the cookie or case check
	isJudged        bool // counted in the server's lateness
	isOverdue       bool // counted as a failure of its server
	isLingering     bool
	isAnswered      bool // by a final response
	isClosed        bool
}

// canSkipParsing reports whether a simple response may skip the parsed path: it reveals nothing
// about EDNS or cookies, and Config.Ignore does not see it.
func (t *try) canSkipParsing() bool { return t.fl.isRaw && !t.again && !t.noEDNS }

// newTryLocked creates a try and writes its query; send sends it. conn is the opportunistic TLS
// connection to use, or nil.
func (n *lane) newTryLocked(fl *flight, a attempt, conn *exchange.Stream) *try {
	f, s, now := n.f, a.to, fl.begun
	if len(fl.tries) > 0 || fl.round != nil {
		now = time.Now()
	}
	udp := f.udp.Load()
	var t *try
	var most uint16
	if isUDP := s.tls == nil && conn == nil && !a.tcp; isUDP {
		t = n.newSocketLocked(s.Addr.Addr().Is4(), udp.HasPorts() || !s.isPlain())
		if most = udp.Size; a.isSmall {
			most = dns.MinMsgSize
		}
	} else {
		t = &try{socket: socket{fd: -1, slot: -1}, conn: conn, stop: func() {}}
	}
	t.attempt, t.fl, t.begun = a, fl.hold(), now
	t.holds.Store(2)
	var silentSince time.Time
	if a.again {
		silentSince = fl.begun
	}
	t.as, t.size = s.form(silentSince, fl.key.WantsDNSSEC(), most, now)
	switch {
	case a.noEDNS:
		t.as, t.size = exchange.WithoutEDNS, 0
	case conn != nil && t.as == exchange.WithEDNS:
		t.as = exchange.Padded
	}
	t.query = exchange.AppendQuery(t.query[:0], n.ids.Next(), fl.key, t.as, cmp.Or(t.size, udp.Size))
	if t.isGuarded = udp.IsGuarded() && s.tls == nil && conn == nil; t.isGuarded {
		t.query = s.Guard(t.query, udp, !a.again, n.ids.Next, now)
	}
	switch {
	case s.tls != nil:
		n.prepareOn(t, s.tls)
	case conn != nil:
		n.prepareOn(t, conn)
	}
	fl.noteTry(t)
	return t
}

// send sends the query of a new try. It does not block. Only the watcher may call it for TCP.
func (n *lane) send(t *try) {
	defer n.drop(t)
	if t.again {
		t.to.Retried()
	}
	t.to.sent()
	t.fl.route.tally(t.to).sent()
	switch {
	case t.stop == nil:
		if err := n.sendUDP(t); err != nil {
			t.socket.isFaulty = true
			n.post(mail{t: t, err: err})
		}
	case t.begin != nil:
		t.begin()
	default:
		n.sendTCP(t)
	}
}

// A carrier multiplexes queries over one connection.
type carrier interface {
	// Begin queues the query. The carrier calls the waiter with the response, or when there will be
	// no response. Begin does not block.
	Begin(*exchange.Waiter)
	// End forgets the waiter. It reports false if the waiter was called, or is about to be.
	End(*exchange.Waiter) bool
}

// prepareOn prepares a query over a connection. The query may be stopped before it begins.
func (n *lane) prepareOn(t *try, c carrier) {
	w := n.waiterFor(t)
	if t.canSkipParsing() {
		w.DeliverWire = func(r dnswire.Response) {
			n.post(mail{t: t, wire: r, isStream: true})
			n.drop(t)
		}
	}
	t.begin = func() { c.Begin(w) }
	t.stop = func() {
		if c.End(w) {
			n.drop(t)
		}
	}
}

// waiterFor returns a waiter that mails the response to the watcher.
func (n *lane) waiterFor(t *try) *exchange.Waiter {
	t.holds.Add(1)
	return &exchange.Waiter{Query: slices.Clone(t.query), Spent: &t.fl.spent, Deliver: func(m *dns.Msg, err error) {
		n.post(mail{t: t, msg: m, err: err, isStream: true})
		n.drop(t)
	}}
}

// sendTCP asks over a new connection, on its own goroutine. Truncated responses are rare, and a
// server does not close a new connection as it may an idle one. Retries of unanswered questions
// share mostLastResorts connections.
func (n *lane) sendTCP(t *try) {
	f := n.f
	if t.isLastResort() {
		select {
		case f.lastResorts <- struct{}{}:
		default:
			n.post(mail{t: t, err: errUnsent})
			return
		}
	}
	if t.fl.check == nil {
		f.counts.overTCP.Add(1)
	}
	ctx, cancel := context.WithDeadline(context.Background(), t.fl.begun.Add(n.lifeOf(t.fl)))
	t.stop = cancel
	w := n.waiterFor(t)
	f.work.Go(func() {
		defer cancel()
		if t.isLastResort() {
			defer func() { <-f.lastResorts }()
		}
		var m *dns.Msg
		var err error
		defer func() { w.Deliver(m, err) }()
		defer f.recovered(func(e error) { m, err = nil, e })
		m, err = f.dialer.AskTCP(ctx, t.to.Server, w, func() { t.to.Reached(time.Now()) })
	})
}

// close ends a try.
func (n *lane) close(t *try) {
	if t.isClosed {
		return
	}
	t.isClosed = true
	fl := t.fl
	fl.tries = slices.DeleteFunc(fl.tries, func(other *try) bool { return other == t })
	if t.isLingering {
		n.lingering--
	}
	if t.isProbe {
		t.to.EndProbe()
	}
	if t.stop != nil {
		t.stop()
	}
	n.drop(t)
}
