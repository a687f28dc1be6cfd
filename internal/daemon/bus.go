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

// newBus returns the daemon's D-Bus service. It returns nil if Root is not / and Config.Bus is
// empty: names on the system bus belong to the machine, and a daemon with another root is not the
// machine's nameserver.
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

// busNames returns the bus names for a dbus setting.
func busNames(wanted nodeconfig.DBus) []string {
	switch wanted {
	case nodeconfig.DBusDnsmasq:
		return []string{dbusapi.DnsmasqName, dbusapi.ManagerName}
	case nodeconfig.DBusNodeDNS:
		return []string{dbusapi.ManagerName}
	}
	return nil
}

// serveBus owns the configured names, and changes them when the configuration changes.
func (d *Daemon) serveBus(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := d.ownNames(ctx, d.policy().Config.DBus); err != nil {
			return err
		}
	}
	return nil
}

// ownNames owns names until ctx ends or the configuration changes.
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

// setOverBus applies a state that was set over D-Bus. It returns when the state is in force.
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
		return errors.New("node-dns is busy inspecting the host; try again")
	}
}

// takeOverBus is the part of setOverBus that runs in the follower. A state that cannot be saved for
// the next start still takes effect.
func (f *follower) takeOverBus(state dbusapi.State) error {
	served := f.policy()
	running := served.Config
	if running.DBus != nodeconfig.DBusDnsmasq {
		return errors.New("dbus in node-dns.yaml does not allow changes")
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

// keepBus stores the state and saves it for the next start.
func (f *follower) keepBus(state dbusapi.State) {
	f.busState.Store(&state)
	f.unkept = ""
	if err := state.Save(f.paths.bus); err != nil {
		f.unkept = err.Error()
	}
}

// loadBus loads the state that was set before a restart.
func (d *Daemon) loadBus() {
	state, err := dbusapi.Load(d.paths.bus)
	if err != nil {
		d.log.Warn("cannot restore the settings made over D-Bus", "error", err)
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

// loopAddresses returns addresses without ports, like dnsmasq.
func (d *Daemon) loopAddresses() []string {
	addresses := []string{}
	for server := range d.loops.Looping() {
		addresses = append(addresses, server.Addr.Addr().String())
	}
	return addresses
}
