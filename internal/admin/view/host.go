package view

import (
	"net/netip"
	"slices"

	"github.com/node-dns/node-dns/internal/dnsmasqconf"
	"github.com/node-dns/node-dns/internal/hostdns"
	"github.com/node-dns/node-dns/internal/nodeconfig"
)

// Host is what the daemon last saw of the host's files, and what it would do to them if it might.
type Host struct {
	State hostdns.State // as origin-dns-dispatcher sees it, which knows nothing of --config
	Plan  hostdns.Plan

	Config    nodeconfig.Config // what is served by, at the start and after a reload
	ConfigErr error             // its faults

	Dnsmasq    dnsmasqconf.Config // what dnsmasq's files say
	DnsmasqErr error              // their faults
}

// Problems are what could not be looked at, and the faults of the configuration.
func (v *Host) Problems() []string {
	problems := slices.Clone(v.State.Problems)
	if v.ConfigErr != nil && !slices.Contains(problems, v.ConfigErr.Error()) {
		problems = append(problems, v.ConfigErr.Error())
	}
	if v.DnsmasqErr != nil {
		problems = append(problems, v.DnsmasqErr.Error())
	}
	if v.Plan.Hold == hostdns.NoWayBack {
		problems = append(problems, "/etc/resolv.conf is not pointed at this node: "+v.Plan.Hold+
			"; node-dns doctor and journalctl -u node-dns say more")
	}
	if v.Plan.Lacking != "" && v.State.IsLacking() {
		problems = append(problems, v.Plan.Lacking)
	}
	if v.Plan.RewriteLoop {
		problems = append(problems, "/etc/resolv.conf is left alone: "+v.Plan.Hold)
	}
	return problems
}

// reread is the view with the files as they are now: the hook may have written them since the look.
func (v *Host) reread() *Host {
	state := v.State.Reread()
	return &Host{State: state, Plan: hostdns.NewPlan(state)}
}

// Pending are the host's files that are not what they should be, given that we answer at the addresses in listening.
// Where we do not listen at the address that resolv.conf is to name (a daemon run by hand on another port), the host's
// files are none of our business.
func (v *Host) Pending(listening []netip.AddrPort) []string {
	if !v.IsAnswered(listening) {
		return nil
	}
	var paths []string
	for _, step := range v.Plan.Steps(true) {
		paths = append(paths, step.Path)
	}
	return paths
}

// IsAnswered reports whether we listen at the address that resolv.conf is to name.
func (v *Host) IsAnswered(listening []netip.AddrPort) bool {
	return v.Plan.Nameserver.IsValid() && slices.Contains(listening, v.Plan.Nameserver)
}
