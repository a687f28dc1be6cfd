package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/node-dns/node-dns/internal/admin/view"
	"github.com/node-dns/node-dns/internal/hostdns"
	"github.com/node-dns/node-dns/internal/nm"
	"github.com/node-dns/node-dns/internal/nodeconfig"
)

// lookAtHost looks and plans, read-only. It fails only when ctx ends: what was seen by then is not all there is.
func (f *follower) lookAtHost(ctx context.Context) (*view.Host, error) {
	state := f.config.Looker.Look(ctx, nm.Event{})
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	seen := &view.Host{State: state, Plan: hostdns.NewPlan(state), Config: state.Config, ConfigErr: state.ConfigErr}
	if f.config.ConfigFile != "" {
		seen.Config, seen.ConfigErr = f.loadConfig()
	}
	seen.Dnsmasq, seen.DnsmasqErr = f.dnsmasq.Load()
	if before := f.view.Host.Swap(seen); before != nil {
		f.countHookWrites(seen.State.HookWrites(before.State))
	}
	return seen, nil
}

// countHookWrites counts what the hook has written since the last look, but for what it was asked for, which counts by who showed it.
func (f *follower) countHookWrites(n int) {
	if n > 0 && f.request.Owed {
		f.request.Owed = false
		n--
	}
	for range n {
		f.view.Metrics.Requests.Add(view.HookReason)
	}
}

// loadConfig reads the configuration with the file of --config, which must be there.
func (d *Daemon) loadConfig() (nodeconfig.Config, error) {
	paths := d.config.Looker.Config
	paths.NodeDNS = d.config.ConfigFile
	config, err := nodeconfig.Load(paths)
	if _, missing := os.Stat(paths.NodeDNS); missing != nil {
		err = errors.Join(err, fmt.Errorf("reading the configuration: %w", missing))
	}
	return config, err
}
