package nameserver

import (
	"cmp"
	"slices"
	"strings"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
)

// A Source is an origin of nameservers for names: a program over D-Bus, the admin's files, the
// cluster's files, NetworkManager, or the last good state. A lower Source takes precedence. Only
// Table defines the order, and only Settle applies it. The zero Source is none.
type Source int

const (
	DBus Source = iota + 1
	CommandLine
	Cluster
	NodeDNS
	Dnsmasq
	NodeConfig
	FromCluster
	NetworkManager
	ResolvConf
	LastGood
)

// A Row is one row of the table of sources.
type Row struct {
	Source Source
	Name   string // for display and for JSON
	Says   string // what the source may set, and with which settings
}

// Table lists every source in order of precedence.
var Table = []Row{
	{DBus, "D-Bus", "SetDomainServers and similar calls, by root: any domain, also the cluster's"},
	{CommandLine, "command line", "node-dns serve --upstream: all names"},
	{Cluster, "cluster", "clusterDNS, dnsIP: the cluster's domain and its reverse zones"},
	{NodeDNS, "node-dns.yaml", "upstreams: all names; routes: one domain each"},
	{Dnsmasq, "dnsmasq", "server=, local=, rev-server=, address= and resolv-file of dnsmasq's files: all names, a domain, or single-label names"},
	{NodeConfig, "node-config.yaml", "dnsNameservers, dnsRecursiveResolvConf: all names"},
	{FromCluster, "cluster's DNS", "with fromCluster, the forwarding of CoreDNS, kube-dns or OpenShift's operator: all names, or a domain"},
	{NetworkManager, "NetworkManager", "the nameservers of connections, manual ones before those of DHCP: all names, or a domain"},
	{ResolvConf, "resolv.conf", "a file that node-dns did not write, or systemd-resolved's: all names"},
	{LastGood, "last-good", "the last captured servers: all names, or a domain"},
}

// String returns the name in the table, or "" for the zero Source.
func (s Source) String() string {
	for _, row := range Table {
		if row.Source == s {
			return row.Name
		}
	}
	return ""
}

// Kind is the way in which the names of a domain are resolved.
type Kind int

const (
	Ask      Kind = iota // query the Servers
	Local                // never query a server: names that are unknown here do not exist
	Standard             // query the servers for all names, even if a shorter domain has its own
)

// A Claim is what one source says about one domain.
type Claim struct {
	Source Source
	// Detail is the exact place for display: a file and line, a connection and interface, or a
	// D-Bus sender. It may be empty.
	Detail string
	Domain dnsname.Name // with all names below it; the root means all names
	// Plain limits the claim to names without dots (dnsmasq's server=//IP); Domain is then the
	// root.
	Plain bool
	Kind  Kind
	// Servers are the usable servers, in order, for Kind Ask.
	Servers []Server
	// Refused are further servers of the claim that must not be queried.
	Refused []Refused
	// GivesWay means that a claim of Kind Ask without Servers leaves the domain to the next claim.
	// Other claims without servers still win, and their names fail: they must not leak to servers
	// that the claim excludes.
	GivesWay bool
	// Barred is why the claim does not count, even if it is the only one: "it lies in the cluster's
	// zone". It is empty for a claim that counts.
	Barred string
}

// Refused is a server that must not be queried.
type Refused struct {
	Server Server
	Why    string
}

// ComesBack is the Why of a nameserver that the loop probe has found.
const ComesBack = "it sends queries back to this node"

// String returns the source of the claim and its exact place.
func (c Claim) String() string {
	name := c.Source.String()
	switch {
	case c.Source == CommandLine:
		return "the " + name
	case c.Detail == "":
		return name
	case c.Source == Cluster, c.Source == NodeDNS, c.Source == NodeConfig, c.Source == FromCluster, c.Source == ResolvConf, strings.HasPrefix(c.Detail, name):
		return c.Detail // Detail names the file
	}
	return name + " " + c.Detail
}

// isVoid reports whether the claim leaves its domain to the next one.
func (c Claim) isVoid() bool { return c.GivesWay && c.Kind == Ask && len(c.Servers) == 0 }

// A Route is the claim that won a domain. A Route of Kind Standard has the servers for all names.
type Route struct{ Claim }

// A Loss is a claim that does not count, and the reason.
type Loss struct {
	Claim
	By  *Claim // the claim that won the domain; nil if none did
	Why string // "D-Bus :1.5 wins over dnsmasq /etc/dnsmasq.d/x.conf:3"
	// GaveWay means that the claim had the domain, but left it to the next one because none of its
	// servers is usable.
	GaveWay bool
}

// domain is the unit that has one winner.
type domain struct {
	name  dnsname.Name
	plain bool
}

func (c Claim) domain() domain { return domain{c.Domain, c.Plain} }

// Settle decides which claim wins each domain, and why the others do not. Every claim is in exactly
// one of the lists. Both lists are in the order of the sources, and within a source in the order of
// its claims; claims for all names come last. Of two claims of one source for the same domain, the
// first wins. Settle is pure and does not change claims.
func Settle(claims []Claim) (routes []Route, losses []Loss) {
	ordered := make([]*Claim, len(claims)) // pointers: sorting the structs would make the hook 16 kB larger
	for i, c := range claims {
		ordered[i] = &c
	}
	slices.SortStableFunc(ordered, func(a, b *Claim) int {
		return cmp.Or(rootLast(*a)-rootLast(*b), cmp.Compare(a.Source, b.Source))
	})
	winners := map[domain]*Claim{}
	for _, c := range ordered {
		switch known := winners[c.domain()] != nil; {
		case known, c.Barred != "", c.isVoid():
			losses = append(losses, Loss{Claim: *c, GaveWay: !known && c.Barred == ""})
		default:
			winners[c.domain()] = c
			routes = append(routes, Route{*c})
		}
	}
	for i := range losses {
		losses[i].By = winners[losses[i].domain()]
		losses[i].Why = losses[i].why()
	}
	root := winners[domain{name: dnsname.Root()}]
	for i := range routes {
		if routes[i].Kind == Standard && root != nil {
			routes[i].Servers = root.Servers
		}
	}
	return routes, losses
}

// Sentence returns the reason as a sentence for display, with the servers that are not queried
// because of it.
func (l Loss) Sentence() string {
	if len(l.Servers) == 0 {
		return l.Why
	}
	return l.Why + "; not used: " + Join(l.Servers)
}

// IsConflict reports whether an admin's static servers for all names have won over others that the
// host was given. The admin may have forgotten them, and wonder why the servers from DHCP are not
// used.
func (l Loss) IsConflict() bool {
	if l.By == nil || l.Barred != "" || l.GaveWay || rootLast(l.Claim) == 0 {
		return false
	}
	static := l.By.Source == NodeDNS || l.By.Source == Dnsmasq || l.By.Source == NodeConfig
	given := l.Source == NetworkManager || l.Source == ResolvConf
	others := slices.ContainsFunc(l.Servers, func(s Server) bool { return !slices.Contains(l.By.Servers, s) })
	return static && given && others
}

func (l Loss) why() string {
	switch {
	case l.Barred != "":
		return l.Barred
	case l.GaveWay:
		return "none of its servers is usable"
	}
	return l.By.String() + " wins over " + l.Claim.String()
}

// rootLast sorts claims for all names after the others.
func rootLast(c Claim) int {
	if c.Domain.IsRoot() && !c.Plain {
		return 1
	}
	return 0
}
