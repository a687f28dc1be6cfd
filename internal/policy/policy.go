// Package policy decides what a node serves: it turns Inputs into one immutable Policy.
//
// It is pure: it reads no files and sends no queries. Package nameserver decides which source wins
// if several name nameservers for a domain. claims.go decides what each source claims, and which
// servers must not be queried.
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
	Listen      []netip.AddrPort    // from the command line; empty means that the configuration decides
	Upstreams   []nameserver.Server // the same
	Root        string              // prefix of every path; "" means /
	Config      nodeconfig.Config
	Net         netstate.State
	Record      []byte // the upstream record, with the addresses that pods were given earlier
	Captured    upstream.Set
	From        nameserver.Source  // the source of Captured
	Origin      string             // the same, for display
	Outdone     []nameserver.Claim // the host's other sources; those not weaker than From do not count yet
	Looping     map[nameserver.Server]struct{}
	Recursive   []nameserver.Server // the servers in dnsRecursiveResolvConf, unless that is our own file
	Bus         Bus                 // settings over D-Bus
	Dnsmasq     dnsmasqconf.Config  // dnsmasq's files
	OwnDNS      *FromCluster        // nil if fromCluster is off
	Known       *LocalData          // an earlier result for the same Dnsmasq and Hostname; nil if there is none
	ResolvFiles []nameserver.Server // the servers in the resolv-file of Dnsmasq
	MaxFiles    int                 // limit of the process's open files; 0 means no limit
	Problems    []string            // found while collecting the inputs

	DNSService DNSService

	Kubeconfig  string // the default file; "" if it does not exist
	Credentials nodeconfig.Kubeconfig
	NodeName    string         // in the API, unless the configuration names it; empty means Hostname
	Hostname    string         // of this host
	HostSearch  []dnsname.Name // the search list of the kubelet's resolv.conf
}

// Bus is the state set over D-Bus. The zero Bus means that nothing was set.
type Bus struct {
	Rules   []dnsmasqconf.Rule
	RulesBy string // the caller, for display
	Options dnsmasqconf.Options
}

// Policy is what to serve. New creates it, and it never changes. Its methods are safe for
// concurrent use.
type Policy struct {
	Config   nodeconfig.Config
	Dnsmasq  dnsmasqconf.Config
	Settings Settings
	Options  dnsmasqconf.Options
	Net      netstate.State
	Hostname dnsname.Name // zero if the host's name is not a valid DNS name
	Metrics  nodeconfig.Metrics
	Search   *SearchLists // for pods

	Listen     []netip.AddrPort
	Spare      []netip.AddrPort // the part of Listen that may belong to another program
	NodeIP     netip.Addr
	Intercept  []netip.Addr // addresses whose queries are to come here while the cluster zone is answered
	Translate  bool         // see intercept.Request
	Redirected []netip.Addr // addresses of the cluster's DNS Service whose queries Cilium brings here while node-dns is ready
	Access     Access
	ForwardMax int // limit of the queries that wait for upstreams

	// LeftTo is another node-dns of this host that serves it, for display. While it does, this one
	// listens nowhere. See LeaveTo.
	LeftTo string

	API           API
	Credentials   nodeconfig.Kubeconfig // the source of API.Kubeconfig
	Apexes        []dnsname.Name        // the cluster domain and its reverse zones
	ClusterDNS    []nameserver.Server
	ClusterSource string               // the key that gave the cluster domain, for display
	Own           *clusterdns.Settings // the cluster's own DNS; nil if fromCluster is off

	Routes     []forward.Route    // highest precedence first; the root's is last
	Won        []nameserver.Route // the claims behind Routes, in the same order
	Lost       []nameserver.Loss
	Overrides  []dnsname.Name      // the cluster's domains, or subdomains, that have another route
	Candidates []nameserver.Server // all servers of the routes, and those left out because they loop
	Known      *LocalData
	Local      *LocalRecords // the records of Known

	Problems []string
	Notes    []string // information for an admin that is not a problem

	looping  map[nameserver.Server]struct{}
	pods     []nameserver.Server // the DNS pods that this node queries
	usesPods bool                // a route needs them
}

// Guarded returns Routes, plus a route without servers for each zone of the cluster that has no
// route, so that its names also fail in the forwarder. They only reach the forwarder while zone and
// routes are being replaced one after the other, and must not leak to the site's nameservers.
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

// IsOverridden reports whether a name of the cluster has another route.
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

// Probed returns the servers that may send queries back, including those left out for that.
func (p *Policy) Probed() []nameserver.Server {
	var servers []nameserver.Server
	seen := map[nameserver.Server]bool{}
	for _, server := range p.Candidates {
		if !server.TLS && !seen[server] {
			seen[server] = true
			servers = append(servers, server)
		}
	}
	return servers
}

// ApexAbove returns the cluster's zone that contains a name, or "".
func (p *Policy) ApexAbove(name dnsname.Name) string {
	for _, apex := range p.Apexes {
		if name.Within(apex) {
			return apex.String()
		}
	}
	return ""
}

// LocalData is the local data with its inputs.
type LocalData struct {
	data   *LocalRecords
	Said   dnsmasqconf.Config   // from dnsmasq's files, and the hosts of own
	own    *clusterdns.Settings // nil if fromCluster is off
	pinned []dnsname.Name       // domains with a route of a source stronger than own
}
