package dnsserver

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
)

const (
	// aliveRound is the maximum number of sockets checked in one watchdog round: `listen: all` may
	// mean hundreds.
	aliveRound = 16
	// aliveTries is the number of UDP pings to a socket per round. A ping is lost if the socket
	// buffer is full.
	aliveTries = 4
	// A round looks for answers after firstLook, then after pauses that double up to longestLook.
	// Waking up for each answer costs an idle node twice as much CPU.
	firstLook, longestLook = time.Millisecond, 50 * time.Millisecond
)

// Alive is the watchdog's health check. It must be used by one goroutine only.
type Alive struct {
	listeners func() []Listener
	handler   Handler
	own       *ownClients
	next      int        // index of the listener to check next
	silent    []Listener // did not answer in the last round; checked in every round until they do
}

// Alive returns the health check for the server's listeners. Check calls handler directly if a
// listener's pings were lost among queries.
func (s *Server) Alive(handler Handler) *Alive {
	return &Alive{listeners: s.Listeners, handler: handler, own: &s.own}
}

// Check pings half of the server's sockets, aliveRound at most. It fails if one of them hangs, that
// is, neither answers nor receives what clients send. Sockets that are not bound yet, sockets that
// have been closed, and addresses that the host does not currently have are not failures.
func (a *Alive) Check(ctx context.Context) error {
	var pings []*ping
	var from []netip.AddrPort
	for _, l := range a.round() {
		if p := newPing(l); p != nil {
			defer p.close()
			pings, from = append(pings, p), append(from, p.from)
		}
	}
	if len(pings) == 0 {
		return nil
	}
	a.own.Store(&from)
	defer a.own.Store(nil)
	pings = await(ctx, pings)
	a.silent = nil
	var errs []error
	for _, p := range pings {
		if err := a.judge(ctx, p); err != nil {
			errs, a.silent = append(errs, err), append(a.silent, p.to)
		}
	}
	return errors.Join(errs...)
}

// round returns the listeners to check in this round.
func (a *Alive) round() []Listener {
	var bound []Listener
	for _, l := range a.listeners() {
		if l.Err == "" {
			bound = append(bound, l)
		}
	}
	isSilent := func(l Listener) bool { return slices.ContainsFunc(a.silent, l.isSame) }
	var round []Listener
	for _, l := range bound {
		if isSilent(l) {
			round = append(round, l)
		}
	}
	turns := min(aliveRound, (len(bound)+1)/2)
	for i := range turns {
		if l := bound[(a.next+i)%len(bound)]; !isSilent(l) {
			round = append(round, l)
		}
	}
	a.next = (a.next + turns) % max(1, len(bound))
	return round
}

// await sends the pings and returns those that are still unanswered when ctx ends.
func await(ctx context.Context, pings []*ping) []*ping {
	end, _ := ctx.Deadline()
	every := time.Until(end) / aliveTries
	isIn := func(state pingState) func(*ping) bool { return func(p *ping) bool { return p.state == state } }
	for pause := firstLook; slices.ContainsFunc(pings, isIn(waiting)) && ctx.Err() == nil; pause = min(2*pause, longestLook) {
		now := time.Now()
		for _, p := range pings {
			if p.state == waiting {
				p.send(now, every)
			}
		}
		time.Sleep(min(pause, max(0, time.Until(end))))
		for _, p := range pings {
			if p.state == waiting {
				p.readAnswer()
			}
		}
	}
	return slices.DeleteFunc(pings, isIn(answered))
}

// judge decides whether a listener that did not answer its ping hangs.
func (a *Alive) judge(ctx context.Context, p *ping) error {
	l := p.to
	now := slices.IndexFunc(a.listeners(), func(other Listener) bool { return other.isSame(l) && other.Err == "" })
	if now < 0 {
		return nil // it no longer listens
	}
	why := p.err
	if a.listeners()[now].Taken > l.Taken {
		// The listener received queries, so our ping was lost among them, unless the Handler hangs.
		if why = ask(ctx, a.handler, l.Addr, l.Addr, l.Proto); why == nil {
			return nil
		}
	}
	return fmt.Errorf("listener %s %s does not answer the watchdog: %w", l.Proto, l.Addr, why)
}

func (l Listener) isSame(other Listener) bool { return l.Addr == other.Addr && l.Proto == other.Proto }

// ask sends the Handler a query that it answers without upstreams.
func ask(ctx context.Context, handler Handler, client, local netip.AddrPort, proto Proto) error {
	query := new(dns.Msg).SetQuestion("version.bind.", dns.TypeTXT)
	query.Question[0].Qclass = dns.ClassCHAOS
	_, err := handler.ServeDNS(ctx, &Query{Msg: query, Client: client, Local: local, Proto: proto})
	return err
}

// ownClients are the addresses that pings are currently sent from; nil means none. Their traffic is
// not counted and has no limits.
type ownClients struct {
	atomic.Pointer[[]netip.AddrPort]
}

func (o *ownClients) has(client netip.AddrPort) bool {
	own := o.Load()
	return own != nil && slices.Contains(*own, client)
}

// answerPing returns the response to a ping. It calls the Handler first, so a ping takes as long as
// a query.
func (s *Server) answerPing(x exchange) []byte {
	ctx, cancel := context.WithTimeout(s.queries, s.cfg.Timeout)
	defer cancel()
	_ = ask(ctx, s.cfg.Handler, x.client, x.local, x.proto) // an error is an answer too
	return errorReply(x.wire, dns.RcodeSuccess)
}
