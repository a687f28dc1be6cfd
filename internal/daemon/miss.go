package daemon

import (
	"github.com/node-dns/node-dns/internal/dnsserver"
	"github.com/node-dns/node-dns/internal/dnswire"
	"github.com/node-dns/node-dns/internal/forward"
)

// miss has an upstream nameserver asked for what serveWire has no answer to, without parsing the query, where nothing else
// could have a say in the answer.
func (d *Daemon) miss(l *dnsserver.Later) bool {
	s, q := d.serving.Load(), l.Query()
	if !s.missesOnWire || !s.access.allows(q.Local, q.Client.Addr(), s.net.IsLocal) {
		return false
	}
	var buf [dnswire.MaxName]byte
	name, isName := dnswire.AppendText(buf[:0], q.Name())
	if !isName || d.zone.Covers(name) || s.answersItself(q, name) {
		return false
	}
	c := d.cache.Load()
	if !d.forward.Ask(l, c.Epoch()) {
		return false
	}
	c.Missed()
	return true
}

// answered gives who waits for an answer that answer, and has it remembered.
func (d *Daemon) answered(r forward.Reply) {
	highest := uint32(max(d.serving.Load().settings.clientTTL, 0))
	response, ok := d.cache.Load().Keep(r.Waiting[0].Query(), r.Msg, r.From, r.Tag)
	var buf []byte
	for _, l := range r.Waiting {
		if !ok {
			l.Handle(nil)
			continue
		}
		buf = response.Append(buf[:0], l.Query(), highest)
		l.Send(buf)
	}
}
