package daemon

import (
	"context"
	"fmt"
	"time"
)

// reloading is an order to read the configuration again.
type reloading struct {
	by   string
	done chan error
}

// reload reads the configuration again. A bad file keeps the running configuration (law 8).
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

func (d *Daemon) reloadNow(ctx context.Context, by string) error {
	d.fitMemory()
	seen, err := d.lookAtHost(ctx)
	if err != nil {
		return err
	}
	if err := seen.ConfigErr; err != nil {
		d.view.Metrics.Config.Look(err)
		return fmt.Errorf("reloading: the running configuration stays: %w", err)
	}
	files, err := seen.Dnsmasq, seen.DnsmasqErr
	if err != nil {
		files, err = d.policy().Dnsmasq, fmt.Errorf("reloading dnsmasq's files: what they said before stays: %w", err)
	}
	next := d.newPolicy(seen, seen.Config, files, d.usualKubeconfig())
	d.takeOver(next, by)
	if err == nil {
		d.view.Metrics.Config.Take(time.Now())
	}
	d.setProblems(seen, next)
	d.hint("reload")
	return err
}
