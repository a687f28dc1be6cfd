package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"

	"github.com/node-dns/node-dns/internal/dnsmasqconf"
	"github.com/node-dns/node-dns/internal/hostdns"
	"github.com/node-dns/node-dns/internal/nm"
	"github.com/node-dns/node-dns/internal/nodeconfig"
)

// hostView is what the daemon last saw of the host's files, and what it would do to them if it might.
type hostView struct {
	state hostdns.State // as origin-dns-dispatcher sees it, which knows nothing of --config
	plan  hostdns.Plan

	config    nodeconfig.Config // what is served by, at the start and after a reload
	configErr error             // its faults

	dnsmasq    dnsmasqconf.Config // what dnsmasq's files say
	dnsmasqErr error              // their faults
}

// lookAtHost looks and plans, read-only. It fails only when ctx ends: what was seen by then is not all there is.
func (d *Daemon) lookAtHost(ctx context.Context) (*hostView, error) {
	state := d.config.Looker.Look(ctx, nm.Event{})
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	view := &hostView{state: state, plan: hostdns.NewPlan(state), config: state.Config, configErr: state.ConfigErr}
	if d.config.ConfigFile != "" {
		view.config, view.configErr = d.loadConfig()
	}
	view.dnsmasq, view.dnsmasqErr = d.dnsmasq.Load()
	if before := d.host.Swap(view); before != nil {
		d.countHookWrites(view.state.HookWrites(before.state))
	}
	return view, nil
}

// countHookWrites counts what the hook has written since the last look, but for what it was asked for, which counts by who showed it.
func (d *Daemon) countHookWrites(n int) {
	if n > 0 && d.request.owed {
		d.request.owed = false
		n--
	}
	for range n {
		d.metrics.requests.add(hookReason)
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

// problems are what could not be looked at, and the faults of the configuration.
func (v *hostView) problems() []string {
	problems := slices.Clone(v.state.Problems)
	if v.configErr != nil && !slices.Contains(problems, v.configErr.Error()) {
		problems = append(problems, v.configErr.Error())
	}
	if v.dnsmasqErr != nil {
		problems = append(problems, v.dnsmasqErr.Error())
	}
	if v.plan.Hold == hostdns.NoWayBack {
		problems = append(problems, "/etc/resolv.conf is not pointed at this node: "+v.plan.Hold+
			"; node-dns doctor and journalctl -u node-dns say more")
	}
	if v.plan.Lacking != "" && v.state.IsLacking() {
		problems = append(problems, v.plan.Lacking)
	}
	if v.plan.Fought {
		problems = append(problems, "/etc/resolv.conf is left alone: "+v.plan.Hold)
	}
	return problems
}

// reread is the view with the files as they are now: the hook may have written them since the look.
func (v *hostView) reread() *hostView {
	state := v.state.Reread()
	return &hostView{state: state, plan: hostdns.NewPlan(state)}
}

// pending are the host's files that are not what they should be, given that we answer at the addresses in listening.
// Where we do not listen at the address that resolv.conf is to name (a daemon run by hand on another port), the host's
// files are none of our business.
func (v *hostView) pending(listening []netip.AddrPort) []string {
	if !v.isAnswered(listening) {
		return nil
	}
	var paths []string
	for _, step := range v.plan.Steps(true) {
		paths = append(paths, step.Path)
	}
	return paths
}

// isAnswered reports whether we listen at the address that resolv.conf is to name.
func (v *hostView) isAnswered(listening []netip.AddrPort) bool {
	return v.plan.Nameserver.IsValid() && slices.Contains(listening, v.plan.Nameserver)
}
