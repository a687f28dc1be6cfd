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
	view, err := d.lookAtHost(ctx)
	if err != nil {
		return err
	}
	if err := view.configErr; err != nil {
		d.metrics.config.look(err)
		return fmt.Errorf("reloading: the running configuration stays: %w", err)
	}
	files, err := view.dnsmasq, view.dnsmasqErr
	if err != nil {
		files, err = d.policy().Dnsmasq, fmt.Errorf("reloading dnsmasq's files: what they said before stays: %w", err)
	}
	next := d.newPolicy(view, view.config, files, d.usualKubeconfig())
	d.takeOver(next, by)
	if err == nil {
		d.metrics.config.take(time.Now())
	}
	d.setProblems(view, next)
	d.hint("reload")
	return err
}
