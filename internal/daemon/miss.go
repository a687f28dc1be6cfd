package daemon

import (
	"github.com/node-dns/node-dns/internal/dns/cache"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/dnswire"
	"github.com/node-dns/node-dns/internal/dns/forward"
)

// miss has an upstream nameserver asked for what serveWire has no answer to, without parsing the query, where nothing else
// could have a say in the answer.
func (d *Daemon) miss(l *dnsserver.Later) bool {
	s, q := d.serving.Load(), l.Query()
	if !s.missesOnWire {
		return false
	}
	var buf [dnswire.MaxName]byte
	name, isName := dnswire.AppendText(buf[:0], q.Name())
	if !isName || d.zone.Covers(name) || s.answersItself(q, name) {
		return false
	}
	c := d.cache.Load()
	if !d.forward.Ask(l, c.Epoch(), c.HasStale(&q)) {
		return false
	}
	c.Missed()
	return true
}

// answered gives who waits for an answer that answer, and has it remembered.
func (d *Daemon) answered(r forward.Reply) {
	s := d.serving.Load()
	if d.mustCut(s, r) {
		d.handleCut(r)
		return
	}
	response, ok := d.keep(s, r)
	highest := uint32(max(s.Settings.ClientTTL, 0))
	for i, l := range r.Waiting {
		if !ok {
			r.Waiting[i] = nil
			l.Handle(nil)
			continue
		}
		wire := response.Append(r.Out.Buffer()[:0], l.Query(), highest)
		r.Waiting[i] = nil
		l.SendWith(r.Out, wire, r.From)
	}
}

// keep has an answer remembered. ok is false for one that the Handler must ask for again: what is served has changed, so that
// it has to be looked at, or it cannot be packed.
func (d *Daemon) keep(s *serving, r forward.Reply) (response cache.Response, ok bool) {
	switch {
	case r.Msg != nil:
		return d.cache.Load().Keep(r.Query, r.Msg, r.From.Value(), r.Tag)
	case !s.missesOnWire:
		return response, false
	}
	return d.cache.Load().KeepWire(r.Query, r.Wire, r.From, r.At, r.Tag), true
}
