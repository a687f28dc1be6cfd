package daemon

import (
	"time"

	"github.com/node-dns/node-dns/internal/admin/view"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/policy"
	"github.com/node-dns/node-dns/internal/sys/supervise"
)

// change is the replacement of one Policy by another.
type change struct {
	old, next *policy.Policy
	by        string // cause of the change
	rerouted  bool   // queries take other routes
	forgotten int    // number of cached responses dropped for that
	failed    error  // an address that cannot be bound
}

// takeOver puts next in force. Unchanged parts stay as they are: sockets stay open, upstreams keep
// their health, and the cache keeps answers from servers that are still used. It returns when to
// look again, or 0 if that is not needed.
func (f *follower) takeOver(next *policy.Policy, by string) time.Duration {
	c := &change{old: f.policy(), next: next, by: by}
	for _, step := range [...]func(*change){
		f.takeAnswers,   // first: the other steps use the Policy in force
		f.takeBounds,    // before an address is open to clients
		f.logChange,     // before the log lists the addresses opened for it
		f.dropAddresses, // before listeners close
		f.takeListeners, // after the bounds
		f.tellTasks,     // last: the tasks act on all of the above
	} {
		step(c)
	}
	return f.waitAfter(c)
}

func (f *follower) takeAnswers(c *change) { c.rerouted, c.forgotten = f.resolver.Apply(c.next) }

func (f *follower) takeBounds(c *change) {
	f.server.SetMaxInFlight(c.next.ForwardMax+localRoom, c.next.ForwardMax)
	f.server.SetAccess(c.next.Access.Server)
	if c.next.Settings.UDP != c.old.Settings.UDP {
		f.server.SetUDPSize(int(c.next.Settings.UDP.Size))
	}
}

func (f *follower) logChange(c *change) {
	f.setLevel(c.next)
	f.view.LogChange(c.old, c.next, c.by, c.rerouted, c.forgotten)
}

func (f *follower) dropAddresses(c *change) { f.dropInterception(c.old, c.next) }

func (f *follower) takeListeners(c *change) {
	c.failed = f.listen(c.next)
	f.announce()
	f.requestInterception(c.next)
}

// listen binds the addresses that s wants and logs the result. Addresses that are already bound
// stay as they are.
func (d *Daemon) listen(s *policy.Policy) error {
	before := view.ListenerStatus(d.server.Listeners(), nil)
	terms, at, _ := dnsserver.ReadTerms(d.paths.terms)
	d.server.SetTerms(terms, at...)
	err := d.server.Listen(s.Listen)
	d.view.LogListeners(before, view.ListenerStatus(d.server.Listeners(), s.Spare))
	return err
}

func (f *follower) tellTasks(c *change) {
	old, next := c.old, c.next
	supervise.Wake(f.rewatch)
	f.view.Metrics.Rewant()
	f.view.FollowLogQueries(old, next)
	if old.Config.Resolver.FromCluster && !next.Config.Resolver.FromCluster {
		f.forgetFromCluster()
	}
	if old.Config.DBus != next.Config.DBus {
		supervise.Wake(f.rebus)
	}
	if !next.HasServersOf(old) {
		f.loops.Reroute()
	}
}

// listenAgain is the delay until an address that could not be bound is tried again.
const listenAgain = time.Second

// waitAfter returns when to look again: for an address that is not bound yet, for another node-dns
// to leave, for unused sockets to close, and for the terms under which port 53 changes hands.
func (f *follower) waitAfter(c *change) time.Duration {
	wait := f.sockets.closeUnused(time.Now())
	if _, _, left := dnsserver.ReadTerms(f.paths.terms); left > 0 && (wait == 0 || wait > left) {
		wait = left
	}
	if (c.failed != nil || c.next.LeftTo != "") && (wait == 0 || wait > listenAgain) {
		return listenAgain
	}
	return wait
}

func (d *Daemon) setLevel(p *policy.Policy) {
	if d.config.Level != nil {
		d.config.Level.Set(p.Config.LogLevel)
	}
}
