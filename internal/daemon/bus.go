package daemon

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/admin/dbusapi"
	"github.com/node-dns/node-dns/internal/dns/cache"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/exchange"
	"github.com/node-dns/node-dns/internal/dns/forward"
	"github.com/node-dns/node-dns/internal/dnsmasqconf"
	"github.com/node-dns/node-dns/internal/nodeconfig"
	"github.com/node-dns/node-dns/internal/policy"
	"github.com/node-dns/node-dns/internal/sys/journal"
)

// busChange is a state that was set over D-Bus, on its way to the goroutine that changes what is served.
type busChange struct {
	state dbusapi.State
	done  chan error
}

// newBus is our end of the bus; nil below another root than the host's, unless a bus is named: names on the system bus are the
// machine's, and such a daemon is not its nameserver.
func (d *Daemon) newBus() *dbusapi.Service {
	if filepath.Join("/", d.config.Root) != "/" && d.config.Bus == "" {
		return nil
	}
	return dbusapi.New(dbusapi.Config{
		Address:    d.config.Bus,
		Version:    d.config.Version,
		State:      func() dbusapi.State { return *d.busState.Load() },
		Set:        d.setOverBus,
		FlushCache: d.flushAll,
		Reload:     d.reloadOverBus,
		Counters:   d.counters,
		Loops:      d.loopAddresses,
		Status:     d.Status,
		Log:        d.log,
		Panics:     &d.panics,
	})
}

// busNames are the names that the configuration wants.
func busNames(wanted nodeconfig.DBus) []string {
	switch wanted {
	case nodeconfig.DBusDnsmasq:
		return []string{dbusapi.DnsmasqName, dbusapi.ManagerName}
	case nodeconfig.DBusNodeDNS:
		return []string{dbusapi.ManagerName}
	}
	return nil
}

// serveBus owns the names that the configuration wants, from anew whenever it wants others.
func (d *Daemon) serveBus(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := d.ownNames(ctx, d.policy().Config.DBus); err != nil {
			return err
		}
	}
	return nil
}

// ownNames owns names until ctx ends or the configuration wants others.
func (d *Daemon) ownNames(ctx context.Context, wanted nodeconfig.DBus) error {
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	defer group.Wait()
	defer cancel()
	group.Go(func() {
		defer cancel()
		for d.policy().Config.DBus == wanted {
			select {
			case <-ctx.Done():
				return
			case <-d.rebus:
			}
		}
	})
	if names := busNames(wanted); d.bus != nil && len(names) > 0 {
		return d.bus.Run(ctx, names...)
	}
	<-ctx.Done()
	return nil
}

// busChanged has those told who listen, and has the names looked at.
func (d *Daemon) busChanged() {
	if d.bus != nil {
		d.bus.Changed()
	}
}

// setOverBus takes over what was set, and returns when it is in force.
func (d *Daemon) setOverBus(ctx context.Context, state dbusapi.State) error {
	for _, rule := range state.Rules {
		if err := exchange.MayBind(rule.Server); err != nil {
			return fmt.Errorf("%s: %w", rule, err)
		}
	}
	change := busChange{state, make(chan error, 1)}
	select {
	case d.busChanges <- change:
		return <-change.done
	case <-ctx.Done():
		return errors.New("node-dns is busy looking at the host")
	}
}

// takeOverBus is the half of setOverBus that belongs to follow. What cannot be kept for the next start is in force all the
// same.
func (d *Daemon) takeOverBus(state dbusapi.State) error {
	served := d.policy()
	running := served.Config
	if running.DBus != nodeconfig.DBusDnsmasq {
		return errors.New("dbus in node-dns.yaml lets nobody set anything")
	}
	d.log.Info("setting upstream servers from DBus", "servers", journal.Few(ruleWords(state.Rules), " "), "by", state.RulesBy.String(),
		"options", journal.Few(state.Options.Words(), " "), journal.BusSet.Attr())
	d.keepBus(state)
	view := d.host.Load()
	next := d.newPolicy(view, running, served.Dnsmasq, d.keptKubeconfig())
	d.takeOver(next, "D-Bus "+state.RulesBy.String())
	d.setProblems(view, next)
	return nil
}

// keepBus has the state be what was set, here and for the next start.
func (d *Daemon) keepBus(state dbusapi.State) {
	d.busState.Store(&state)
	d.unkept = ""
	if err := state.Save(d.paths.bus); err != nil {
		d.unkept = err.Error()
	}
}

// loadBus finds what was set before the daemon was restarted.
func (d *Daemon) loadBus() {
	state, err := dbusapi.Load(d.paths.bus)
	if err != nil {
		d.log.Warn("what was set over D-Bus is lost", "error", err)
	}
	d.busState.Store(&state)
}

// wantedBus is what was set over D-Bus, for as long as the configuration lets that be.
func (d *Daemon) wantedBus(config nodeconfig.Config) dbusapi.State {
	state := *d.busState.Load()
	if config.DBus == nodeconfig.DBusDnsmasq || state.Same(dbusapi.State{}) {
		return state
	}
	d.log.Info("forgot what was set over D-Bus", "dbus", string(config.DBus), "servers", journal.Few(ruleWords(state.Rules), " "))
	d.keepBus(dbusapi.State{})
	return dbusapi.State{}
}

func ruleWords(rules []dnsmasqconf.Rule) []string {
	words := []string{}
	for _, rule := range rules {
		words = append(words, rule.String())
	}
	return words
}

func (d *Daemon) busStatus(s *policy.Policy) *control.Bus {
	if d.bus == nil || len(busNames(s.Config.DBus)) == 0 {
		return nil
	}
	state := *d.busState.Load()
	names, problem := d.bus.Names()
	return &control.Bus{
		Error: problem, Names: names,
		Servers: ruleWords(state.Rules), ServersBy: state.RulesBy.String(),
		Options: state.Options.Words(), OptionsBy: state.OptionsBy.String(),
	}
}

// counters are what dnsmasq counts, of ours.
func (d *Daemon) counters() dbusapi.Counters {
	stored, forwarded, served := d.resolver.Cache().Stats(), d.resolver.Forward().Stats(), d.server.Stats()
	c := dbusapi.Counters{
		Inserted: stored.Insertions, Evicted: stored.Evictions, Stale: stored.Stale,
		Forwarded: forwarded.Asked, Unanswered: forwarded.Unanswered,
		OpenTCP: uint64(max(served.TCPOpen, 0)),
		Local:   answeredHere(served, stored, forwarded),
	}
	seen := map[string]bool{}
	for _, route := range d.resolver.Forward().Status() {
		for _, server := range route.Servers {
			if address := server.Server.String(); !seen[address] {
				seen[address] = true
				c.Servers = append(c.Servers, dbusapi.ServerCounters{
					Addr: server.Server.Addr, Queries: server.Queries, Failed: server.Failures + server.Refusals,
					NXDomain: server.NXDomain, Retries: server.Retries, RTT: server.RTT,
				})
			}
		}
	}
	return c
}

// answeredHere is how many queries were answered without asking anybody: those that came to an end, without the questions that were
// asked. Not all of these are clients': a prefetch is nobody's, and what an admin asks by node-dns query comes by no socket. So it is
// as many as memory has answered in any case.
func answeredHere(served dnsserver.Stats, stored cache.Stats, forwarded forward.Stats) uint64 {
	ended, asked := served.Answered+served.Failed, forwarded.Asked+forwarded.Joined
	asked -= min(asked, stored.Prefetched)
	return max(ended-min(ended, asked), stored.Hits+stored.Stale)
}

// loopAddresses are without ports, as dnsmasq's.
func (d *Daemon) loopAddresses() []string {
	addresses := []string{}
	for server := range d.loops.looping() {
		addresses = append(addresses, server.Addr.Addr().String())
	}
	return addresses
}

func ofBus(set dbusapi.State) policy.Bus {
	return policy.Bus{Rules: set.Rules, RulesBy: set.RulesBy.String(), Options: set.Options}
}
