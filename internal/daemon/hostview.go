package daemon

import (
	"context"
	"net/netip"
	"slices"

	"github.com/node-dns/node-dns/internal/hostdns"
	"github.com/node-dns/node-dns/internal/nm"
)

// hostView is what the daemon last saw of the host's files, and what it would do to them if it might.
type hostView struct {
	state hostdns.State
	plan  hostdns.Plan
}

// lookAtHost looks and plans, read-only. It fails only when ctx ends: what was seen by then is not all there is.
func (d *Daemon) lookAtHost(ctx context.Context) (*hostView, error) {
	state := d.config.Looker.Look(ctx, nm.Event{})
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	view := &hostView{state: state, plan: hostdns.NewPlan(state)}
	d.host.Store(view)
	return view, nil
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
	if !v.plan.Nameserver.IsValid() || !slices.Contains(listening, v.plan.Nameserver) {
		return nil
	}
	var paths []string
	for _, step := range v.plan.Steps(true) {
		paths = append(paths, step.Path)
	}
	return paths
}
