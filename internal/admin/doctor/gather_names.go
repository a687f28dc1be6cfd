package doctor

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sync/errgroup"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/resolvconf"
)

const (
	// askPatience is the timeout for all queries to the daemon together. The daemon gives up on a
	// query after 5 s.
	askPatience = 5500 * time.Millisecond
	// recentPatience is the timeout for the list of recent names, so that time is left for the
	// queries.
	recentPatience = time.Second
	// askedAtOnce is the number of concurrent queries to the daemon, which accepts four connections
	// from users other than root.
	askedAtOnce = 3
	// Limits on the number of names: one per route, recent ones of each kind, and names for which
	// each nameserver is queried directly.
	maxRouteNames  = 8
	maxRecentNames = 3
	maxDirectNames = 4
	// Limits on the names that are queried as a pod and as this host, and on the recent ones of
	// them.
	maxClientNames  = 8
	maxClientRecent = 3
)

// failedRecently is the reason for querying a name for which a client got SERVFAIL.
const failedRecently = "failed recently"

// recentlyUsed is the reason for querying a name for which a client got an answer.
const recentlyUsed = "recently used"

// questions sends queries to the daemon, to the nameservers and, as a client, to node-dns.
func (g *gathering) questions(ctx context.Context) {
	g.each(ctx, g.names, g.pods, g.fromHost)
	g.askAsClients(ctx)
}

// names asks the daemon for names over its control socket, so that the queries do not count as a
// client's. At the same time, it queries the nameservers of each name directly.
func (g *gathering) names(ctx context.Context) {
	if g.s.Status == nil {
		return
	}
	names := g.chooseNames(ctx)
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	var direct sync.WaitGroup
	for i := range names {
		direct.Go(func() { names[i].askDirectly(ctx, g.serversFor(&names[i])) })
	}
	var asking errgroup.Group
	asking.SetLimit(askedAtOnce)
	for i := range names {
		asking.Go(func() error {
			n := &names[i]
			n.Answer, n.Err = control.Query(ctx, control.SocketPath(g.root), control.Question{Name: n.Name, Type: n.Type})
			return nil
		})
	}
	_ = asking.Wait() // a failed query does not stop the others
	direct.Wait()
	g.s.Names = slices.DeleteFunc(names, func(n Name) bool {
		return !n.Given && (errors.Is(n.Err, context.DeadlineExceeded) || errors.Is(n.Err, os.ErrPermission) || errors.Is(n.Err, control.ErrUnknown))
	})
}

// chooseNames returns the names to query, without duplicates.
func (g *gathering) chooseNames(ctx context.Context) []Name {
	status := g.s.Status
	var all []Name
	add := func(n Name) {
		n.Name = dns.CanonicalName(n.Name)
		if _, ok := dns.IsDomainName(n.Name); !ok || slices.ContainsFunc(all, func(have Name) bool { return have.Name == n.Name && have.Type == n.Type }) {
			return
		}
		n.Route = routeOf(*status, n.Name)
		all = append(all, n)
	}
	if g.given != "" {
		add(Name{Name: g.given, Type: "A", Why: "given", Given: true})
	}
	if c := status.Cluster; c.Domain != "" && (c.Resolver != nil || len(c.Servers) > 0) {
		add(Name{Name: "kubernetes.default.svc." + c.Domain, Type: "A", Why: "the Kubernetes API's name", Cluster: true})
	}
	listing, cancel := context.WithTimeout(ctx, recentPatience)
	defer cancel()
	recent, err := control.FetchRecentNames(listing, control.SocketPath(g.root))
	if err != nil && !errors.Is(err, os.ErrPermission) && !errors.Is(err, control.ErrUnknown) {
		g.unseen("recently used names: %v", err)
	}
	for i := range maxRecentNames { // alternate between the lists, because each nameserver is queried only for the first names
		for _, list := range []struct {
			names []control.RecentName
			why   string
		}{{recent.Failed, failedRecently}, {recent.Answered, recentlyUsed}, {recent.Negative, recentlyUsed}} {
			if i < len(list.names) {
				add(Name{Name: list.names[i].Name, Type: list.names[i].Type, Why: list.why})
			}
		}
		if i == 0 && status.Node.Name != "" {
			add(Name{Name: status.Node.Name, Type: "A", Why: "this node's name"})
		}
	}
	routes := 0
	for _, route := range status.Routes {
		if route.Domain != "." && route.Domain != "//" && !route.Local && routes < maxRouteNames {
			routes++
			add(Name{Name: route.Domain, Type: "SOA", Why: "the domain of a route"})
		}
	}
	for _, domain := range resolvconf.Parse(g.s.Host.State.ResolvConf.Data).Search() {
		if dns.Fqdn(domain) != status.Cluster.Domain && routes < maxRouteNames {
			routes++
			add(Name{Name: domain, Type: "SOA", Why: "in this host's search list"})
		}
	}
	return all
}

// routeOf returns the domain of the route for name. It is empty if no route applies, as for a name
// that the built-in cluster resolver answers.
func routeOf(status control.Status, name string) string {
	if c := status.Cluster; c.Resolver != nil && slices.ContainsFunc(append(slices.Clone(c.ReverseZones), c.Domain), func(zone string) bool { return dns.IsSubDomain(zone, name) }) {
		return ""
	}
	longest := ""
	for _, route := range status.Routes {
		if route.Domain != "//" && dns.IsSubDomain(route.Domain, name) && len(route.Domain) >= len(longest) {
			longest = route.Domain
		}
	}
	return longest
}

// serversFor returns the nameservers for n, except those that were already queried for enough
// names.
func (g *gathering) serversFor(n *Name) []nameserver.Server {
	var servers []nameserver.Server
	for _, route := range g.s.Status.Routes {
		if n.Route == "" || route.Domain != n.Route {
			continue
		}
		for _, s := range route.Servers {
			if server, err := nameserver.Parse(s.Address); err == nil && g.mayAsk(s.Address) {
				servers = append(servers, server)
			}
		}
	}
	return servers
}

// mayAsk counts a direct query to server and reports whether it is within the limits.
func (g *gathering) mayAsk(server string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.asked == nil {
		g.asked = map[string]int{}
	}
	g.asked[server]++
	return g.asked[server] <= maxDirectNames && len(g.asked) <= maxProbed
}

// askDirectly queries all servers in all ways concurrently. After SERVFAIL it asks again without
// validation.
func (n *Name) askDirectly(ctx context.Context, servers []nameserver.Server) {
	question := dns.Question{Name: n.Name, Qtype: dns.StringToType[n.Type], Qclass: dns.ClassINET}
	n.Direct = make([]Direct, len(servers))
	var all sync.WaitGroup
	for i, server := range servers {
		all.Go(func() { n.Direct[i].ask(ctx, server, question) })
	}
	all.Wait()
}

func (d *Direct) ask(ctx context.Context, server nameserver.Server, q dns.Question) {
	d.Server = server.String()
	if server.TLS {
		d.TCP = exchange(ctx, server, "tcp-tls", q, bufferSize, true)
		return
	}
	var all sync.WaitGroup
	for _, w := range d.ways() {
		all.Go(func() { *w.answer = w.ask(ctx, server, q) })
	}
	all.Wait()
	if d.best().Rcode == "SERVFAIL" {
		d.CD = exchangeCD(ctx, server, q)
	}
}

// way is a way to query a name, and where its answer is stored.
type way struct {
	name    string
	answer  *Answer
	network string
	buffer  uint16 // EDNS buffer size
	signed  bool   // whether the DO bit is set
}

// ways returns all ways except CD.
func (d *Direct) ways() []way {
	return []way{
		{"UDP", &d.UDP, "udp", bufferSize, false},
		{"DO", &d.DO, "udp", bufferSize, true},
		{"512", &d.Small, "udp", dns.MinMsgSize, false},
		{"4096 DO", &d.Large, "udp", 4096, true},
		{"TCP", &d.TCP, "tcp", bufferSize, true},
	}
}

func (w way) ask(ctx context.Context, server nameserver.Server, q dns.Question) Answer {
	if w.network == "udp" {
		return patient(ctx, server, q, w.buffer, w.signed)
	}
	return exchange(ctx, server, w.network, q, w.buffer, w.signed)
}

// best returns the answer over UDP, or else the answer over TCP.
func (d Direct) best() Answer {
	if d.UDP.Rcode != "" {
		return d.UDP
	}
	return d.TCP
}

// words returns all answers on one line, with equal ones grouped: "UDP, DO, 512, 4096 DO: NOERROR;
// TCP: connection refused".
func (d Direct) words() string {
	var results []string
	ways := map[string][]string{}
	for _, w := range append(d.ways(), way{name: "CD", answer: &d.CD}) {
		result := w.answer.result()
		if result == "" {
			continue
		}
		if ways[result] == nil {
			results = append(results, result)
		}
		ways[result] = append(ways[result], w.name)
	}
	var words []string
	for _, result := range results {
		words = append(words, strings.Join(ways[result], ", ")+": "+result)
	}
	return d.Server + " " + strings.Join(words, "; ")
}

// result returns the answer as one word. It is empty if the query was not sent.
func (a Answer) result() string {
	switch {
	case a.Err != nil:
		return a.Err.Error()
	case a.Truncated:
		return "truncated"
	case a.Rcode == "NOERROR" && a.Records == 0:
		return "NODATA"
	}
	return a.Rcode
}
