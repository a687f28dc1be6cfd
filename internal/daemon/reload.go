package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/node-dns/node-dns/internal/admin/dbusapi"
	"github.com/node-dns/node-dns/internal/dns/exchange"
	"github.com/node-dns/node-dns/internal/nodeconfig"
	"github.com/node-dns/node-dns/internal/sys/journal"
)

// reload reloads the configuration. A faulty file keeps the running configuration (law 8).
func (d *Daemon) reload(ctx context.Context) error { return d.orderReload(ctx, "SIGHUP") }

func (d *Daemon) reloadOverBus(ctx context.Context) error { return d.orderReload(ctx, "D-Bus Reload") }

func (d *Daemon) orderReload(ctx context.Context, by string) error {
	order := reloading{by, make(chan error, 1)}
	select {
	case d.reloads <- order:
		return <-order.done
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f *follower) reloadNow(ctx context.Context, by string) error {
	f.fitMemory()
	seen, err := f.lookAtHost(ctx)
	if err != nil {
		return err
	}
	if err := seen.ConfigErr; err != nil {
		f.view.Metrics.Config.Look(err)
		return fmt.Errorf("reloading failed; keeping the running configuration: %w", err)
	}
	files, err := seen.Dnsmasq, seen.DnsmasqErr
	if err != nil {
		files, err = f.policy().Dnsmasq, fmt.Errorf("reloading dnsmasq's files failed; keeping their previous settings: %w", err)
	}
	next := f.newPolicy(seen, seen.Config, files, f.usualKubeconfig())
	f.takeOver(next, by)
	if err == nil {
		f.view.Metrics.Config.Take(time.Now())
	}
	f.setProblems(seen, next)
	f.hint("reload")
	return err
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
	f.log.Info("setting upstream servers from DBus", "servers", journal.Few(state.Servers(), " "), "by", state.RulesBy.String(),
		"options", journal.Few(state.Options.Words(), " "), journal.BusSet.Attr())
	f.keepBus(state)
	seen := f.view.Host.Load()
	next := f.newPolicy(seen, running, served.Dnsmasq, f.keptKubeconfig())
	f.takeOver(next, "D-Bus "+state.RulesBy.String())
	f.setProblems(seen, next)
	return nil
}
