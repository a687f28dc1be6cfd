// Package policy decides what a node serves: Inputs go in, and one immutable Policy comes out.
//
// It is pure: it reads no file and asks nobody. Who wins where several sources name nameservers for one domain is decided by
// package nameserver; what each source asks for, and which servers must not be asked, is decided in claims.go.
package policy

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/forward"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/dnsmasqconf"
	"github.com/node-dns/node-dns/internal/kube/clusterdns"
	"github.com/node-dns/node-dns/internal/netstate"
	"github.com/node-dns/node-dns/internal/nodeconfig"
	"github.com/node-dns/node-dns/internal/upstream"
)

// Inputs are all facts that decide what is served.
type Inputs struct {
	Listen      []netip.AddrPort    // of the command line; none: the configuration decides
	Upstreams   []nameserver.Server // likewise
	Root        string              // every path is below it; "": /
	Config      nodeconfig.Config
	Net         netstate.State
	Record      []byte // the upstream record, which has the addresses that pods were given earlier
	Captured    upstream.Set
	From        nameserver.Source  // the source of Captured
	Origin      string             // the same, for people
	Outdone     []nameserver.Claim // the host's other sources; one that is not weaker than From does not count yet
	Looping     map[nameserver.Server]struct{}
	Recursive   []nameserver.Server // what dnsRecursiveResolvConf names, unless that is a file of ours
	Bus         Bus                 // what was set over D-Bus
	Dnsmasq     dnsmasqconf.Config  // dnsmasq's files
	OwnDNS      *FromCluster        // nil if fromCluster is off
	Known       *LocalData          // made before from the same Dnsmasq and Hostname; nil if there is none
	ResolvFiles []nameserver.Server // what the resolv-file of Dnsmasq names
	MaxFiles    int                 // how many files the process may open; 0: no bound
	Problems    []string            // met while these were gathered

	Kubeconfig  string // the usual file; "" if it does not exist
	Credentials nodeconfig.Kubeconfig
	Hostname    string         // of this host
	HostSearch  []dnsname.Name // the search list of the kubelet's resolv.conf
}

// Bus is what was set over D-Bus. The zero Bus: nothing.
type Bus struct {
	Rules   []dnsmasqconf.Rule
	RulesBy string // the caller, for people
	Options dnsmasqconf.Options
}

// Policy is what to serve: a value that New makes and nobody changes. Its methods are safe for concurrent use.
type Policy struct {
	Config   nodeconfig.Config
	Dnsmasq  dnsmasqconf.Config
	Settings Settings
	Options  dnsmasqconf.Options
	Net      netstate.State
	Hostname dnsname.Name // the zero Name if the host has none that can stand in DNS
	Metrics  nodeconfig.Metrics
	Search   *SearchLists // of pods

	Listen     []netip.AddrPort
	Spare      []netip.AddrPort // those of Listen that another program may have
	NodeIP     netip.Addr
	Access     Access
	ForwardMax int // how many questions may wait for upstreams

	API           API
	Credentials   nodeconfig.Kubeconfig // where API.Kubeconfig is from
	Apexes        []dnsname.Name        // the cluster domain and its reverse zones
	ClusterDNS    []nameserver.Server
	ClusterSource string               // the key that gave the cluster domain, for people
	Own           *clusterdns.Settings // the cluster's own DNS; nil if fromCluster is off

	Routes     []forward.Route    // in the order of precedence; the root's is the last
	Won        []nameserver.Route // the claims that Routes are made of, in the same order
	Lost       []nameserver.Loss
	Overrides  []dnsname.Name      // domains of the cluster, or within them, that are asked elsewhere
	Candidates []nameserver.Server // all servers of the routes, and those left out because they loop
	Known      *LocalData
	Local      *LocalRecords // that of Known

	Problems []string
	Notes    []string // what an admin should know, though all is well

	looping map[nameserver.Server]struct{}
}

// Guarded are the Routes, and a route without servers for each zone of the cluster that has no route: its names fail in the forwarder
// too. They reach the forwarder only while zone and routes are replaced one after the other, and must not go on to the site's
// nameservers.
func (p *Policy) Guarded() []forward.Route {
	routes := slices.Clone(p.Routes)
	for _, apex := range p.Apexes {
		if !p.isRouted(apex) {
			routes = append(routes, forward.Route{Domain: apex, Source: Guard})
		}
	}
	return routes
}

// Guard is the Source of routes that only keep names from other servers.
const Guard = "guard"

func (p *Policy) isRouted(domain dnsname.Name) bool {
	return slices.ContainsFunc(p.Routes, func(r forward.Route) bool { return r.Domain == domain && !r.Plain })
}

// IsOverridden reports whether a name of the cluster is asked elsewhere.
func (p *Policy) IsOverridden(name dnsname.Name) bool {
	return slices.ContainsFunc(p.Overrides, name.Within)
}

func (p *Policy) note(format string, args ...any) {
	p.Notes = append(p.Notes, fmt.Sprintf(format, args...))
}

// IsOfCluster reports whether a name is in one of the Apexes.
func (p *Policy) IsOfCluster(name dnsname.Name) bool {
	return slices.ContainsFunc(p.Apexes, name.Within)
}

// ApexAbove is the zone of the cluster that a name is in; "" if it is in none.
func (p *Policy) ApexAbove(name dnsname.Name) string {
	for _, apex := range p.Apexes {
		if name.Within(apex) {
			return apex.String()
		}
	}
	return ""
}

// LocalData is the local data, with the inputs that it was made from.
type LocalData struct {
	data   *LocalRecords
	Said   dnsmasqconf.Config   // by dnsmasq's files, and by the hosts of own
	own    *clusterdns.Settings // nil if fromCluster is off
	pinned []dnsname.Name       // domains with a route of a source stronger than own
}
