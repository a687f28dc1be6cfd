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

// lookAtHost looks and plans, read-only. It fails only if ctx ends, because the result would be
// incomplete.
func (f *follower) lookAtHost(ctx context.Context) (*view.Host, error) {
	state := f.config.Looker.Look(ctx, nm.Event{})
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	seen := &view.Host{State: state, Plan: hostdns.NewPlan(state), Config: state.Config, ConfigErr: state.ConfigErr, InPod: f.isInPod()}
	if f.config.ConfigFile != "" {
		seen.Config, seen.ConfigErr = f.loadConfig()
	}
	seen.Dnsmasq, seen.DnsmasqErr = f.dnsmasq.Load()
	if before := f.view.Host.Swap(seen); before != nil {
		f.countHookWrites(seen.State.HookWrites(before.State))
	}
	return seen, nil
}

// countHookWrites counts writes by the hook since the last look. It skips the one that the daemon
// requested, which is counted under its own reason.
func (f *follower) countHookWrites(n int) {
	if n > 0 && f.request.Owed {
		f.request.Owed = false
		n--
	}
	for range n {
		f.view.Metrics.Requests.Add(view.HookReason)
	}
}

// loadConfig reads the configuration with the file of --config, which must exist.
func (d *Daemon) loadConfig() (nodeconfig.Config, error) {
	paths := d.config.Looker.Config
	paths.NodeDNS = d.config.ConfigFile
	config, err := nodeconfig.Load(paths)
	if _, missing := os.Stat(paths.NodeDNS); missing != nil {
		err = errors.Join(err, fmt.Errorf("reading the configuration: %w", missing))
	}
	return config, err
}
