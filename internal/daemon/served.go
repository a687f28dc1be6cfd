package daemon

import (
	"slices"

	"github.com/node-dns/node-dns/internal/policy"
)

// serving is the Policy that is in force, and what the fast path has to know of it.
type serving struct {
	*policy.Policy
	onWire       bool // the cluster's names may be answered on the wire
	hitsOnWire   bool // so may what is remembered
	missesOnWire bool // what is not remembered is asked for, and what the upstreams say is remembered as it is
}

func newServing(in policy.Inputs) *serving { return served(policy.New(in)) }

func served(p *policy.Policy) *serving {
	s := &serving{Policy: p}
	if p.Local == nil {
		return s // nothing is served
	}
	s.hitsOnWire = !s.Options.FilterA && !s.Options.FilterAAAA
	s.missesOnWire = s.hitsOnWire && !s.Settings.StopRebind && !s.Settings.StaleAtOnce && len(s.Dnsmasq.Bogus)+len(s.Dnsmasq.Ignored)+len(s.Dnsmasq.Rewrites) == 0
	s.onWire = s.hitsOnWire && !hasLocalNames(s.Config.ClusterDomain) && len(s.Overrides) == 0 && !slices.ContainsFunc(s.Apexes, s.Local.Knows) && !s.Local.Knows(policy.ClusterSet())
	return s
}
