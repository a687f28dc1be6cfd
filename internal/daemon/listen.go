package daemon

import (
	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/admin/view"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/policy"
)

// listen binds what s wants, and logs what became of it. What is bound already stays as it is.
func (d *Daemon) listen(s *policy.Policy) error {
	before := view.ListenerStatus(d.server.Listeners(), nil)
	terms, at, _ := dnsserver.ReadTerms(d.paths.terms)
	d.server.SetTerms(terms, at...)
	err := d.server.Listen(s.Listen)
	d.logListeners(before, view.ListenerStatus(d.server.Listeners(), s.Spare))
	return err
}

// listenerChange is how two states of the listeners differ.
type listenerChange struct {
	opened, closed []string            // addresses that are bound now, or not any more
	spared         []string            // addresses that another program has, and may have
	failed         map[string][]string // other addresses that are not bound, by a reason that is new for them
}

func changeOfListeners(before, after []control.Listener) listenerChange {
	was := map[string]control.Listener{}
	for _, l := range before {
		was[l.Address] = l
	}
	change := listenerChange{failed: map[string][]string{}}
	is := map[string]bool{}
	for _, l := range after {
		old, known := was[l.Address]
		is[l.Address] = l.Error == ""
		switch {
		case l.Spare && l.Error != old.Error:
			change.spared = append(change.spared, l.Address)
		case l.IsFailed() && l.Error != old.Error:
			change.failed[l.Error] = append(change.failed[l.Error], l.Address)
		case l.Error == "" && (!known || old.Error != ""):
			change.opened = append(change.opened, l.Address)
		}
	}
	for _, l := range before {
		if l.Error == "" && !is[l.Address] {
			change.closed = append(change.closed, l.Address)
		}
	}
	return change
}
