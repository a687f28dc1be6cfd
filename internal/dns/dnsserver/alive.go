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
	// aliveRound bounds the sockets that a round of the watchdog asks: `listen: all` may be hundreds.
	aliveRound = 16
	// aliveTries is how often a ping over UDP is sent in the time of a round: one may be lost where the socket is full.
	aliveTries = 4
	// A round looks for answers after firstLook, and then after twice that time each, longestLook at most: to be woken for each answer
	// costs an idle node twice as much CPU.
	firstLook, longestLook = time.Millisecond, 50 * time.Millisecond
)

// Alive is the watchdog's check. It belongs to one goroutine.
type Alive struct {
	listeners func() []Listener
	handler   Handler
	own       *ownClients
	next      int        // whose turn it is
	silent    []Listener // of the last round: their turn is in each round, until they answer
}

// Alive returns the check of the server's listeners. handler is asked in the place of a listener whose pings got lost among queries.
func (s *Server) Alive(handler Handler) *Alive {
	return &Alive{listeners: s.Listeners, handler: handler, own: &s.own}
}

// Check pings our own sockets, half of them and aliveRound at most, and fails when one of them hangs: it neither answers nor takes
// what others send. What is not bound yet is no failure, nor is what was closed meanwhile, nor an address that the host does not
// have at present.
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

// round is who is asked now.
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

// await sends the pings, and returns those that are not answered when ctx ends.
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
				p.hear()
			}
		}
	}
	return slices.DeleteFunc(pings, isIn(answered))
}

// judge says whether a listener hangs that has not answered its ping.
func (a *Alive) judge(ctx context.Context, p *ping) error {
	l := p.to
	now := slices.IndexFunc(a.listeners(), func(other Listener) bool { return other.isSame(l) && other.Err == "" })
	if now < 0 {
		return nil // it listens no more
	}
	why := p.err
	if a.listeners()[now].Taken > l.Taken {
		// Others are taken: our ping was lost among them, unless what answers it hangs.
		if why = ask(ctx, a.handler, l.Addr, l.Addr, l.Proto); why == nil {
			return nil
		}
	}
	return fmt.Errorf("our own listener %s %s does not answer: %w", l.Proto, l.Addr, why)
}

func (l Listener) isSame(other Listener) bool { return l.Addr == other.Addr && l.Proto == other.Proto }

// ask asks the Handler what it answers by itself.
func ask(ctx context.Context, handler Handler, client, local netip.AddrPort, proto Proto) error {
	query := new(dns.Msg).SetQuestion("version.bind.", dns.TypeTXT)
	query.Question[0].Qclass = dns.ClassCHAOS
	_, err := handler.ServeDNS(ctx, &Query{Msg: query, Client: client, Local: local, Proto: proto})
	return err
}

// ownClients are the addresses that pings are sent from; nil: there are none now. What comes from there is nobody's traffic: it is
// counted nowhere, and has no bounds.
type ownClients struct {
	atomic.Pointer[[]netip.AddrPort]
}

func (o *ownClients) has(client netip.AddrPort) bool {
	own := o.Load()
	return own != nil && slices.Contains(*own, client)
}

// answerPing answers a ping: it asks the Handler, and so takes as long as that.
func (s *Server) answerPing(x exchange) []byte {
	ctx, cancel := context.WithTimeout(s.queries, s.cfg.Timeout)
	defer cancel()
	_ = ask(ctx, s.cfg.Handler, x.client, x.local, x.proto) // an answer that it failed is an answer
	return errorReply(x.wire, dns.RcodeSuccess)
}
