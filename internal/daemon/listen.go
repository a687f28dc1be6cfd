package daemon

import (
	"github.com/node-dns/node-dns/internal/admin/view"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/policy"
)

// listen binds the addresses that s wants and logs the result. Addresses that are already bound
// stay as they are.
func (d *Daemon) listen(s *policy.Policy) error {
	before := view.ListenerStatus(d.server.Listeners(), nil)
	terms, at, _ := dnsserver.ReadTerms(d.paths.terms)
	d.server.SetTerms(terms, at...)
	err := d.server.Listen(s.Listen)
	d.logListeners(before, view.ListenerStatus(d.server.Listeners(), s.Spare))
	return err
}
