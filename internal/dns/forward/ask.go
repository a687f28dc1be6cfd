package forward

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/exchange"
)

// ServeDNS queries the servers of the query's route and returns the first final response. The
// response carries the client's question; from its OPT record only the Extended DNS Errors remain.
// ServeDNS sets q.AnsweredBy, and passes on the upstream's AD bit.
//
// If every server refuses or fails with a response, ServeDNS returns the last such response. If no
// server responds, the error is a *dnsserver.ExtendedError with RFC 8914 code 22 or 23. It names
// the servers and matches ErrNoResponse. The other errors are ErrNoServers and ErrShed. A query
// without exactly one question is an error: dnsserver answers those itself.
func (f *Forward) ServeDNS(ctx context.Context, q *dnsserver.Query) (*dns.Msg, error) {
	if len(q.Msg.Question) != 1 {
		return nil, errNotOneQuestion
	}
	switch tried := q.Tried; {
	case tried == nil:
	case tried.Msg != nil:
		q.AnsweredBy = tried.Server
		return ofClient(q, tried.Msg.Copy()), nil
	case errors.Is(tried.Err, errLoop):
		return loopResponse(q), nil
	case tried.Err != nil:
		return nil, f.failed(tried.Err)
	}
	asked := questionOf(q)
	t := f.table.Load()
	r := t.match(q.Domain())
	if r != nil && r.Local {
		return new(dns.Msg).SetRcode(q.Msg, dns.RcodeNameError), nil
	}
	if r == nil || len(r.servers) == 0 {
		return nil, noServers(asked, r)
	}
	noteRoute(q.Trace(), r)
	m, from, err := f.wait(ctx, asked, flightParams{table: t, route: r, now: time.Now(), trace: q.Trace()}, q)
	if errors.Is(err, errLoop) {
		return loopResponse(q), nil
	}
	if err != nil {
		return nil, err
	}
	q.AnsweredBy = from.Server
	return ofClient(q, m), nil
}

// wait waits for the response to a question.
func (f *Forward) wait(ctx context.Context, asked exchange.Question, d flightParams, q *dnsserver.Query) (*dns.Msg, *server, error) {
	k, err := asked.AppendKey(nil)
	if err != nil {
		return nil, nil, fmt.Errorf("asking for %s: %w", asked, err)
	}
	n, hash, err := f.laneOf(k)
	switch {
	case errors.Is(err, exchange.ErrClosed):
		return nil, nil, err
	case err != nil:
		return nil, nil, f.failed(extended(dns.ExtendedErrorCodeOther, "no socket for an upstream query: "+exchange.Reason(err), asked, ErrShed))
	}
	g := &caller{client: q.Client.Addr(), isUDP: q.Proto == dnsserver.UDP, done: make(chan struct{})}
	switch err := n.join(k, hash, d, waiter{caller: g, from: d.route.asker(q)}); {
	case errors.Is(err, errFull):
		return nil, nil, f.failed(tooMany(asked, int(f.flights.share(d.route))))
	case err != nil:
		return nil, nil, err
	}
	select {
	case <-g.done:
	case <-ctx.Done():
		n.leave(g)
		return nil, nil, canceled(asked, d.route, ctx.Err())
	}
	if g.err != nil {
		return nil, nil, f.failed(g.err)
	}
	return g.msg.Copy(), g.from, nil
}

// questionOf returns the question of a query that has exactly one.
func questionOf(q *dnsserver.Query) exchange.Question {
	first := q.Msg.Question[0]
	name := q.Name.String()
	if q.Name.IsZero() {
		name = strings.ToLower(dns.Fqdn(first.Name))
	}
	opt := q.Msg.IsEdns0()
	return exchange.Question{
		Name:  name,
		Type:  first.Qtype,
		Class: first.Qclass,
		DO:    opt != nil && opt.Do(),
		CD:    q.Msg.CheckingDisabled,
		RD:    q.Msg.RecursionDesired,
	}
}

// ofClient turns m into the response to q. It may change m.
func ofClient(q *dnsserver.Query, m *dns.Msg) *dns.Msg {
	m.Id = q.Msg.Id
	m.Question = []dns.Question{q.Msg.Question[0]}
	m.RecursionDesired = q.Msg.RecursionDesired
	m.CheckingDisabled = q.Msg.CheckingDisabled
	return m
}

// failed counts a failed query.
func (f *Forward) failed(err error) error {
	if errors.Is(err, ErrShed) {
		f.counts.shed.Add(1)
	} else {
		f.counts.unanswered.Add(1)
	}
	return err
}

// Ask sends a query upstream. It passes the answer to Config.Answered from another goroutine, or
// hands the query to the Handler. It returns false if it does neither. The Reply carries tag.
// hasStale means that the Handler may have a stale answer if no other arrives soon.
func (f *Forward) Ask(l *dnsserver.PendingQuery, tag uint64, hasStale bool) bool {
	if f.config.Answered == nil || f.all.Load() {
		return false
	}
	var room [exchange.MaxKey]byte
	k, ok := exchange.AppendKey(room[:0], l.Query().Msg)
	if !ok {
		return false
	}
	t := f.table.Load()
	r := t.matchWire(k)
	if r == nil || r.Local || len(r.servers) == 0 || hasStale && r.reach.isLost() {
		return false
	}
	n, hash, err := f.laneOf(k)
	if err != nil {
		return false
	}
	switch err := n.join(k, hash, flightParams{table: t, route: r, tag: tag, now: time.Now()}, waiter{later: l, hasStale: hasStale, from: r.at(l.Client())}); {
	case errors.Is(err, errLoop):
		l.Handle(&dnsserver.UpstreamResult{Server: r.servers[0].Server, Err: errLoop})
	case err != nil:
		return false
	}
	return true
}

// laneOf returns the lane of a question. Equal questions always get the same lane. A client cannot
// choose questions that share a lane, or a chain of its table. It also returns the hash of the key.
func (f *Forward) laneOf(k exchange.Key) (*lane, uint64, error) {
	lanes := f.lanes.Load()
	if lanes == nil {
		var err error
		if lanes, err = f.open(); err != nil {
			return nil, 0, err
		}
	}
	hash := maphash.Bytes(f.seed, k)
	return (*lanes)[hash/chains%uint64(len(*lanes))], hash, nil
}

// opened returns the lanes, or nil before the first question.
func (f *Forward) opened() []*lane {
	if lanes := f.lanes.Load(); lanes != nil {
		return *lanes
	}
	return nil
}

// open creates the lanes if they do not exist yet.
func (f *Forward) open() (*[]*lane, error) {
	f.opening.Lock()
	defer f.opening.Unlock()
	if lanes := f.lanes.Load(); lanes != nil {
		return lanes, nil
	}
	if f.closed.Load() {
		return nil, exchange.ErrClosed
	}
	var lanes []*lane
	for range f.most {
		n, err := newLane(f, len(lanes))
		if err != nil && len(lanes) == 0 {
			return nil, err
		}
		if err == nil {
			lanes = append(lanes, n)
		}
	}
	f.lanes.Store(&lanes)
	return &lanes, nil
}

// A waiter wants the answer of a flight: a PendingQuery or a caller.
type waiter struct {
	later    *dnsserver.PendingQuery
	hasStale bool
	caller   *caller
	from     *server // the upstream server that sent this query, if the flight is asking it; nil for any other client
}

// patience is the time after which the Handler may serve a stale answer.
const patience = 400 * time.Millisecond

// join adds a waiter to the flight for the same question, or begins a flight and sends its first
// query. The key is not part of d, so that a copy on the caller's stack does not escape to the
// heap.
func (n *lane) join(k exchange.Key, hash uint64, d flightParams, who waiter) error {
	first, out, hasMail, err := n.register(k, hash, d, who)
	if hasMail {
		n.wake()
	}
	out.tell()
	if first != nil {
		defer n.senders.Done()
		n.send(first)
	}
	return err
}

// register is the part of join that needs the lock and makes no system call.
func (n *lane) register(k exchange.Key, hash uint64, d flightParams, who waiter) (first *try, out eviction, hasMail bool, err error) {
	n.mu.Lock()
	defer n.mu.Unlock() // even on a panic, or other callers would block forever
	isEmpty := len(n.mail) == 0
	defer func() { hasMail = isEmpty && len(n.mail) > 0 }()
	if fl := n.findLocked(k, hash, d.table); fl != nil {
		if who.from != nil && n.f.handleLoop(who.from, &fl.isLoopCounted) {
			return nil, out, false, errLoop
		}
		n.f.counts.joined.Add(1)
		if d.trace != nil {
			d.trace.Note("waits for the answer to the same query from another client")
		}
		n.addWaiterLocked(fl, who, d.now)
		return nil, out, false, nil
	}
	if n.closed {
		return nil, out, false, exchange.ErrClosed
	}
	if !n.f.flights.enter(d.route) {
		var ok bool
		if out, ok = n.makeRoomLocked(d.route, d.now); !ok {
			return nil, out, false, errFull
		}
	}
	fl := n.newFlightLocked(k, hash, d)
	fl.isRaw = who.later != nil
	n.enterLocked(fl)
	n.addWaiterLocked(fl, who, d.now)
	n.f.counts.asked.Add(1)
	if first = n.prepareLocked(fl); first != nil {
		n.senders.Add(1)
	}
	return first, out, false, nil
}

func (n *lane) addWaiterLocked(fl *flight, who waiter, now time.Time) {
	fl.joined++
	if who.caller != nil {
		who.caller.fl = fl
		fl.callers = append(fl.callers, who.caller)
		return
	}
	fl.waiting = append(fl.waiting, who.later)
	if who.hasStale && !fl.hasStale {
		fl.hasStale, fl.releaseAt = true, now.Add(patience)
		if fl.place > 0 && fl.releaseAt.Before(fl.due) {
			n.setTimerLocked(fl, fl.releaseAt)
		}
	}
}

// prepareLocked chooses the first server and writes the query. The caller sends it. It returns nil
// if the watcher begins all tries.
func (n *lane) prepareLocked(fl *flight) *try {
	first, wait, hasProbe := fl.route.choose(fl.begun)
	_, conn := first.upgraded()
	isLeftToWatcher := n.f.all.Load() || first.tls == nil && conn != nil
	if isLeftToWatcher || hasProbe {
		n.postLocked(mail{fl: fl.hold()})
	}
	if isLeftToWatcher {
		n.setTimerLocked(fl, fl.begun.Add(n.f.config.Deadline))
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

// evictable is the minimum age at which a question can be evicted for a new one.
const evictable = 250 * time.Millisecond

// An eviction holds the waiters of an evicted question.
type eviction struct {
	waiting []*dnsserver.PendingQuery
	callers []*caller
	err     error
}

// makeRoomLocked evicts the oldest question of the same route or, if the route is below its share,
// of any route. It reports false if that question is too young. So names without an answer do not
// block other names.
func (n *lane) makeRoomLocked(r *route, now time.Time) (out eviction, ok bool) {
	fl := r.lines[n.index].oldest
	if r.flying.Load() < n.f.flights.share(r) {
		fl = n.order.oldest
	}
	if fl == nil || now.Sub(fl.begun) < evictable {
		return out, false
	}
	n.leaveLocked(fl)
	out = eviction{fl.waiting, fl.callers, tooMany(fl.key.Question(), int(n.f.flights.n.Load()))}
	fl.waiting, fl.callers = nil, nil
	n.postLocked(mail{fl: fl.hold(), isLeft: true})
	n.f.flights.n.Add(1)
	r.flying.Add(1)
	return out, true
}

func (e eviction) tell() {
	for _, g := range e.callers {
		g.err = e.err
		close(g.done)
	}
	if len(e.waiting) > 0 {
		dnsserver.HandleAll(e.waiting, &dnsserver.UpstreamResult{Err: e.err})
	}
}

// leave removes a caller that gave up. When the last caller leaves, the flight ends, unless a
// PendingQuery began it or waits for it.
func (n *lane) leave(g *caller) {
	defer n.wake()
	n.mu.Lock()
	defer n.mu.Unlock()
	fl := g.fl
	i := slices.Index(fl.callers, g)
	if i < 0 {
		return // the flight has ended, and may serve another question now
	}
	fl.callers = slices.Delete(fl.callers, i, i+1)
	if fl.isAsked && !fl.isRaw && len(fl.callers)+len(fl.waiting) == 0 { // a PendingQuery's question continues: its answer is cached
		n.leaveLocked(fl)
		n.postLocked(mail{fl: fl.hold(), isLeft: true})
	}
}
