package view

import (
	"net/netip"
	"slices"

	"github.com/node-dns/node-dns/internal/dnsmasqconf"
	"github.com/node-dns/node-dns/internal/hostdns"
	"github.com/node-dns/node-dns/internal/nodeconfig"
)

// Host is the last seen state of the host's files, and what the daemon would change in them if it
// had the rights.
type Host struct {
	State hostdns.State // state as origin-dns-dispatcher sees it, without --config
	Plan  hostdns.Plan

	Config    nodeconfig.Config // configuration in use since the start or the last reload
	ConfigErr error             // errors in the configuration

	Dnsmasq    dnsmasqconf.Config // content of dnsmasq's files
	DnsmasqErr error              // errors in dnsmasq's files

	InPod bool // the files are those of a container: the hook does not run, and the host does not use them
}

// Problems returns what could not be inspected, and the errors in the configuration.
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
			"; see node-dns doctor and journalctl -u node-dns")
	}
	if v.Plan.Lacking != "" && v.State.IsLacking() {
		problems = append(problems, v.Plan.Lacking)
	}
	if v.Plan.RewriteLoop {
		problems = append(problems, "/etc/resolv.conf is left alone: "+v.Plan.Hold)
	}
	return problems
}

// IsConfigUsable reports whether Config may replace the running configuration: it has no faults,
// and the privileged half has read the files that the daemon may not read. While the cluster domain
// is unknown, any configuration may.
func (v *Host) IsConfigUsable(running nodeconfig.Config) bool {
	return running.ClusterDomain.IsZero() || v.ConfigErr == nil && v.Config.FactsWanted == ""
}

// reread returns a Host with the current files, which the hook may have written since the last
// inspection.
func (v *Host) reread() *Host {
	state := v.State.Reread()
	return &Host{State: state, Plan: hostdns.NewPlan(state), InPod: v.InPod}
}

// Pending returns the host's files that differ from their intended content, given that we answer on
// the addresses in listening. There are none in a pod, or if we do not listen on the address for
// resolv.conf, as a daemon that an admin runs on another port.
func (v *Host) Pending(listening []netip.AddrPort) []string {
	if v.InPod || !v.IsAnswered(listening) {
		return nil
	}
	var paths []string
	for _, step := range v.Plan.Steps(true) {
		paths = append(paths, step.Path)
	}
	return paths
}

// Look returns what was found, for a daemon that listens on these addresses.
func (v *Host) Look(listening []netip.AddrPort, kubeconfig nodeconfig.Kubeconfig, isFirst bool) hostdns.Look {
	return hostdns.Look{
		State: v.State, Plan: v.Plan, Pending: v.Pending(listening), IsAnswered: v.IsAnswered(listening),
		Kubeconfig: kubeconfig, IsFirst: isFirst, InPod: v.InPod,
	}
}

// IsAnswered reports whether we listen on the address for resolv.conf.
func (v *Host) IsAnswered(listening []netip.AddrPort) bool {
	return v.Plan.Nameserver.IsValid() && slices.Contains(listening, v.Plan.Nameserver)
}
