package daemon

import (
	"context"
	"fmt"
	"time"
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
