package nameserver

import (
	"cmp"
	"slices"
	"strings"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
)

// A Source is who may say where names are asked: a program over D-Bus, the admin's files, the cluster's, NetworkManager, and what was
// good before. The lower one wins. The order stands in Table alone, and Settle alone applies it. The zero Source is nobody.
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

// A Row is one line of the table of sources.
type Row struct {
	Source Source
	Name   string // for people and for JSON
	Says   string // what it may say, in which words
}

// Table has every source, from the strongest to the weakest.
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

// String is the name in the table; "" for nobody.
func (s Source) String() string {
	for _, row := range Table {
		if row.Source == s {
			return row.Name
		}
	}
	return ""
}

// Kind is what is done with the names of a domain.
type Kind int

const (
	Ask      Kind = iota // they are asked of servers
	Local                // they are asked of nobody: what is not known here does not exist
	Standard             // they are asked of the servers for all names, although a shorter domain has its own
)

// A Claim is what one source says of one domain.
type Claim struct {
	Source Source
	// Detail is where it says so, for people: a file and line, a connection and interface, a sender. May be empty.
	Detail string
	Domain dnsname.Name // and all below it; the root: all names
	// Plain is for the names without dots alone (dnsmasq's server=//IP); Domain is the root then.
	Plain bool
	Kind  Kind
	// Servers are those that can be asked, in order; of Kind Ask.
	Servers []Server
	// Refused are those that it names too, and that must not be asked.
	Refused []Refused
	// GivesWay says that a claim of Kind Ask whose Servers are empty leaves the domain to the next one. Others win all the
	// same, and the names fail: they must not leak to servers that the claim keeps them from.
	GivesWay bool
	// Barred is why the claim does not count, even where it is the only one: "it lies in the cluster's zone". "": it counts.
	Barred string
}

// Refused is a server that must not be asked.
type Refused struct {
	Server Server
	Why    string
}

// ComesBack is the Why of a nameserver that the loop probe has found.
const ComesBack = "it sends our queries back to us"

// String names the claim by its source and where that says so.
func (c Claim) String() string {
	name := c.Source.String()
	switch {
	case c.Source == CommandLine:
		return "the " + name
	case c.Detail == "":
		return name
	case c.Source == Cluster, c.Source == NodeDNS, c.Source == NodeConfig, c.Source == FromCluster, c.Source == ResolvConf, strings.HasPrefix(c.Detail, name):
		return c.Detail // which names the file
	}
	return name + " " + c.Detail
}

// isVoid reports whether the claim has nothing to say.
func (c Claim) isVoid() bool { return c.GivesWay && c.Kind == Ask && len(c.Servers) == 0 }

// A Route is the claim that won a domain. One of Kind Standard has the servers for all names.
type Route struct{ Claim }

// A Loss is a claim that does not count, and why.
type Loss struct {
	Claim
	By  *Claim // the one that won the domain; nil: nobody did
	Why string // "D-Bus :1.5 wins over dnsmasq /etc/dnsmasq.d/x.conf:3"
	// GaveWay says that it had the domain, and left it to the next one as none of its servers can be asked.
	GaveWay bool
}

// domain is what there is one winner of.
type domain struct {
	name  dnsname.Name
	plain bool
}

func (c Claim) domain() domain { return domain{c.Domain, c.Plain} }

// Settle says who wins each domain, and who does not and why: every claim is in one of the lists, once. Both are in the
// order of the sources, and within a source in that of the claims; what is for all names comes last. Of two claims of one
// source for one domain the first wins. It is pure, and leaves claims alone.
func Settle(claims []Claim) (routes []Route, losses []Loss) {
	claims = slices.Clone(claims)
	slices.SortStableFunc(claims, func(a, b Claim) int {
		return cmp.Or(rootLast(a)-rootLast(b), cmp.Compare(a.Source, b.Source))
	})
	winners := map[domain]*Claim{}
	for i, c := range claims {
		switch known := winners[c.domain()] != nil; {
		case known, c.Barred != "", c.isVoid():
			losses = append(losses, Loss{Claim: c, GaveWay: !known && c.Barred == ""})
		default:
			winners[c.domain()] = &claims[i]
			routes = append(routes, Route{c})
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

// Sentence says it for people, with what is not asked therefore.
func (l Loss) Sentence() string {
	if len(l.Servers) == 0 {
		return l.Why
	}
	return l.Why + ": not asked: " + Join(l.Servers)
}

// IsConflict reports whether an admin's static servers for all names have won over others that the host was given: he may
// have forgotten them, and wonder why what DHCP says is not asked.
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
		return "none of its servers can be asked"
	}
	return l.By.String() + " wins over " + l.Claim.String()
}

// rootLast sorts what is for all names behind the rest.
func rootLast(c Claim) int {
	if c.Domain.IsRoot() && !c.Plain {
		return 1
	}
	return 0
}
