package view

import (
	"slices"
	"strings"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/intercept"
	"github.com/node-dns/node-dns/internal/policy"
)

// interceptionStatus returns nil if no interception is wanted.
func (v *View) interceptionStatus(p *policy.Policy) *control.Interception {
	if p.Config.Intercept.Cilium {
		return v.redirectionStatus(p)
	}
	if len(p.Intercept) == 0 {
		return nil
	}
	state, err := intercept.ReadState(intercept.StateFile(v.config.Root))
	return intercepted(p, v.resolver.Known() != nil, state, err)
}

// intercepted combines what the Policy wants with what the helper last wrote: state, which is nil
// if the helper does not run, or err. It is pure.
func intercepted(p *policy.Policy, isKnown bool, state *intercept.State, err error) *control.Interception {
	i := &control.Interception{Wanted: control.Texts(p.Intercept), Addresses: []control.Intercepted{}}
	replacement, isReplaced := p.Net.Replacement()
	switch {
	case isReplaced && replacement.Always: // although the helper succeeds: it sees this host's queries
		i.Why = replacement.Name + " translates the address in pods' packets before this host's rules see them"
		return i
	case !isKnown:
		i.Why = "the cluster's names are not known yet"
		return i
	case err != nil:
		i.Why = err.Error()
		return i
	case state == nil:
		i.Why = "node-dns-intercept.service does not run"
		return i
	}
	i.Owned = state.Owned
	for _, addr := range p.Intercept {
		a := control.Intercepted{Address: addr.String(), Why: "node-dns-intercept.service has not tried it yet"}
		if j := slices.IndexFunc(state.Addresses, func(a intercept.Address) bool { return a.Address == addr }); j >= 0 {
			have := state.Addresses[j]
			a.On, a.Mode, a.Since, a.Why = have.On, string(have.Mode), have.Since, have.Why
		}
		if strings.Contains(a.Why, nameserver.AnotherAnswers) && isReplaced {
			a.Why += ", probably because " + replacement.Name + " replaces kube-proxy"
		}
		i.Addresses = append(i.Addresses, a)
	}
	return i
}
