package daemon

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/admin/dbusapi"
	"github.com/node-dns/node-dns/internal/dns/exchange"
	"github.com/node-dns/node-dns/internal/nodeconfig"
	"github.com/node-dns/node-dns/internal/policy"
	"github.com/node-dns/node-dns/internal/sys/journal"
)

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
		FlushCache: d.view.FlushAll,
		Reload:     d.reloadOverBus,
		Counters:   d.view.Counters,
		Loops:      d.loopAddresses,
		Status:     d.view.Status,
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
func (f *follower) takeOverBus(state dbusapi.State) error {
	served := f.policy()
	running := served.Config
	if running.DBus != nodeconfig.DBusDnsmasq {
		return errors.New("dbus in node-dns.yaml lets nobody set anything")
	}
	f.log.Info("setting upstream servers from DBus", "servers", journal.Few(ruleWords(state.Rules), " "), "by", state.RulesBy.String(),
		"options", journal.Few(state.Options.Words(), " "), journal.BusSet.Attr())
	f.keepBus(state)
	seen := f.view.Host.Load()
	next := f.newPolicy(seen, running, served.Dnsmasq, f.keptKubeconfig())
	f.takeOver(next, "D-Bus "+state.RulesBy.String())
	f.setProblems(seen, next)
	return nil
}

// keepBus has the state be what was set, here and for the next start.
func (f *follower) keepBus(state dbusapi.State) {
	f.busState.Store(&state)
	f.unkept = ""
	if err := state.Save(f.paths.bus); err != nil {
		f.unkept = err.Error()
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

// loopAddresses are without ports, as dnsmasq's.
func (d *Daemon) loopAddresses() []string {
	addresses := []string{}
	for server := range d.loops.Looping() {
		addresses = append(addresses, server.Addr.Addr().String())
	}
	return addresses
}
