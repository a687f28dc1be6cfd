package daemon

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/exchange"
	"github.com/node-dns/node-dns/internal/dns/forward"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/dns/zone"
	"github.com/node-dns/node-dns/internal/policy"
	"github.com/node-dns/node-dns/internal/sys/supervise"
)

const (
	// trialEvery is the interval between end-to-end questions. The third failure in a row must come
	// well before the minReadySeconds of the chart have passed.
	trialEvery = 5 * time.Second
	// trialFailures in a row make the daemon not ready.
	trialFailures = 3
	// longestTrial is the longest interval between questions to nameservers that do not answer.
	longestTrial = time.Minute
	// trialTimeout bounds a question. The daemon gives up on a query after 5 s.
	trialTimeout = 5500 * time.Millisecond
	// maxReferences is the number of nameservers of a kind that are queried directly after a
	// failure.
	maxReferences = 4
	// maxTrials is the number of routes that are asked, all at once: a rollout continues after
	// minReadySeconds of the chart, even if the nameservers of all routes are silent.
	maxTrials = 64
)

// trial asks end-to-end questions, so that a rollout stops at a node where node-dns fails: see
// docs/howto/canary.md. Only one goroutine uses it.
//
// The cluster's name is answered from memory, and is asked for as long as the daemon runs. The
// nameservers of a route are asked until they have answered once, and again when they change. A
// later outage of theirs must not make all nodes not ready: the controller of DaemonSets replaces
// pods that are not ready without regard to maxUnavailable.
type trial struct {
	*Daemon
	cluster  int // failures in a row
	routes   []*trialRoute
	redirect redirectTrial
}

// target is a route to ask, and the nameservers to compare with.
type target struct {
	domain     dnsname.Name
	servers    []nameserver.Server
	references []reference
}

// A reference is a nameserver that is queried directly after a failure.
type reference struct {
	server nameserver.Server
	// isOther means that the route does not have the server. Its NXDOMAIN says nothing: it need not
	// know the names of the route.
	isOther bool
}

// trialRoute is the state of the questions to the nameservers of a route.
type trialRoute struct {
	target
	isPassed bool // they have answered
	failures int  // in a row
	silent   int  // consecutive failures in which no reference answered
	next     time.Time
	verdict  string // why the daemon is not ready; empty if it is
}

func (d *Daemon) watchAnswers(ctx context.Context) error { return (&trial{Daemon: d}).watch(ctx) }

func (t *trial) watch(ctx context.Context) error {
	for supervise.Sleep(ctx, t.config.TrialInterval) {
		p := t.policy()
		t.tryRedirected(ctx, p, time.Now())
		if p.LeftTo != "" { // another node-dns serves the node
			t.cluster, t.routes = 0, nil
			t.view.Failing.Store(&[]string{})
			continue
		}
		verdicts := append([]string{t.tryCluster(ctx, p)}, t.tryRoutes(ctx, p)...)
		failing := slices.DeleteFunc(verdicts, func(verdict string) bool { return verdict == "" })
		if ctx.Err() != nil {
			return nil
		}
		t.logProblems(*t.view.Failing.Swap(&failing), failing, nil)
	}
	return nil
}

// tryCluster asks for the API's name, which exists in every cluster. It returns why the daemon is
// not ready, or "".
func (t *trial) tryCluster(ctx context.Context, p *policy.Policy) string {
	known := t.resolver.Known()
	if known == nil || p.API == (policy.API{}) || len(p.Overrides) > 0 || known.Service(zone.Key{Namespace: "default", Name: "kubernetes"}) == nil {
		t.cluster = 0
		return ""
	}
	name := "kubernetes.default.svc." + p.Config.ClusterDomain.String()
	result := t.ask(ctx, name, dns.TypeA)
	if result == dns.RcodeToString[dns.RcodeSuccess] {
		t.cluster = 0
		return ""
	}
	if t.cluster++; t.cluster < trialFailures {
		return ""
	}
	return fmt.Sprintf("%s fails: %s", name, result)
}

// tryRoutes asks each route until its nameservers have answered. It returns why the daemon is not
// ready.
func (t *trial) tryRoutes(ctx context.Context, p *policy.Policy) (failing []string) {
	t.routes = keepTrials(t.routes, targetsOf(p))
	left := slices.DeleteFunc(slices.Clone(t.routes), func(r *trialRoute) bool { return r.isPassed })
	if len(left) > 0 {
		answering := t.answering()
		var asking sync.WaitGroup
		for _, r := range left {
			asking.Go(func() { t.tryRoute(ctx, r, answering[r.domain]) }) // the only one that uses r
		}
		asking.Wait()
	}
	for _, r := range t.routes {
		failing = append(failing, r.verdict)
	}
	return failing
}

// tryRoute asks a route, unless clients' queries have shown that its nameservers answer.
func (t *trial) tryRoute(ctx context.Context, r *trialRoute, isAnswering bool) {
	now := time.Now()
	switch {
	case isAnswering:
		r.note(now, true, "", "")
		return
	case now.Before(r.next):
		return
	}
	name, qtype := r.question()
	result, reference := t.ask(ctx, name, qtype), ""
	isAnswered := isFinal(result)
	if !isAnswered && r.failures+1 >= trialFailures {
		reference = t.findReference(ctx, r.target)
	}
	r.note(time.Now(), isAnswered, result, reference)
}

// note applies the result of a question. reference is a nameserver that answers it directly, or "".
// Without one the nameservers themselves fail, as they would without node-dns.
func (r *trialRoute) note(now time.Time, isAnswered bool, result, reference string) {
	if isAnswered {
		*r = trialRoute{target: r.target, isPassed: true}
		return
	}
	r.failures++
	r.next = now.Add(min(trialEvery<<max(0, min(r.failures-trialFailures, 8)), longestTrial))
	if r.failures < trialFailures {
		r.next = time.Time{}
		return
	}
	if reference == "" {
		if r.silent++; r.silent >= trialFailures {
			r.verdict = ""
		}
		return
	}
	r.silent = 0
	whose := "the upstream nameservers"
	if !r.domain.IsRoot() {
		whose = "the nameservers of " + r.domain.String()
	}
	r.verdict = fmt.Sprintf("%s do not answer through node-dns (%s), but %s answers", whose, result, reference)
}

// question returns a question that the nameservers of a route answer: `node-dns doctor` asks the
// same.
func (r target) question() (name string, qtype uint16) {
	if r.domain.IsRoot() {
		return ".", dns.TypeNS // every resolver answers it from memory
	}
	return r.domain.String(), dns.TypeSOA
}

// answering returns the domains of the routes that have a nameserver that has answered a client's
// query.
func (t *trial) answering() map[dnsname.Name]bool {
	all := map[dnsname.Name]bool{}
	for _, r := range t.resolver.Forward().Status() {
		if !r.Plain && slices.ContainsFunc(r.Servers, func(s forward.ServerStatus) bool {
			return s.State == exchange.Up && s.RTT > 0 && s.Refusals == 0 && s.Asked > s.Failed
		}) {
			all[r.Domain] = true
		}
	}
	return all
}

// ask asks the daemon itself, past the cache, and returns the response code. It is no client's
// query: no counter of the listeners includes it.
func (t *trial) ask(ctx context.Context, name string, qtype uint16) string {
	ctx, cancel := context.WithTimeout(ctx, trialTimeout)
	defer cancel()
	loopback := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 0)
	handler := dnsserver.HandlerFunc(func(ctx context.Context, q *dnsserver.Query) (*dns.Msg, error) {
		q.Inquiry = &dnsserver.Inquiry{SkipCache: true}
		return t.serveWatchdog(ctx, q)
	})
	response, _, err := dnsserver.Direct(ctx, handler, new(dns.Msg).SetQuestion(name, qtype), loopback, loopback)
	switch {
	case err != nil:
		return err.Error()
	case response == nil:
		return "no response"
	}
	return dns.RcodeToString[response.Rcode]
}

func isFinal(rcode string) bool {
	return rcode == dns.RcodeToString[dns.RcodeSuccess] || rcode == dns.RcodeToString[dns.RcodeNameError]
}

// findReference returns the first reference that answers directly, or "". It asks all at once.
func (t *trial) findReference(ctx context.Context, r target) string {
	name, qtype := r.question()
	answers := make([]bool, len(r.references))
	var asking sync.WaitGroup
	for i, ref := range r.references {
		asking.Go(func() {
			rcode := t.askDirectly(ctx, ref.server, name, qtype)
			answers[i] = isFinal(rcode) && (!ref.isOther || rcode == dns.RcodeToString[dns.RcodeSuccess])
		})
	}
	asking.Wait()
	if i := slices.Index(answers, true); i >= 0 {
		return r.references[i].server.String()
	}
	return ""
}

// askDirectly returns the response code of a nameserver, or "" if it does not respond.
func (t *trial) askDirectly(ctx context.Context, server nameserver.Server, name string, qtype uint16) string {
	socket, err := t.loops.Dial(ctx, server)
	if err != nil {
		return ""
	}
	defer socket.Close()
	conn := &dns.Conn{Conn: socket}
	defer context.AfterFunc(ctx, func() { conn.Close() })() // ExchangeContext does not return when ctx ends
	client := dns.Client{Timeout: time.Second}
	response, _, err := client.ExchangeWithConnContext(ctx, new(dns.Msg).SetQuestion(name, qtype), conn)
	if err != nil {
		return ""
	}
	return dns.RcodeToString[response.Rcode]
}

// keepTrials returns a trial for each route. A route whose domain and nameservers are those of an
// earlier one keeps its state.
func keepTrials(before []*trialRoute, routes []target) []*trialRoute {
	all := make([]*trialRoute, 0, len(routes))
	for _, r := range routes {
		now := &trialRoute{}
		i := slices.IndexFunc(before, func(b *trialRoute) bool { return b.domain == r.domain && slices.Equal(b.servers, r.servers) })
		if i >= 0 {
			now = before[i]
		}
		now.target = r
		all = append(all, now)
	}
	return all
}

// targetsOf returns the routes to ask: that of the root, and those of other domains outside of the
// cluster. It is pure.
func targetsOf(p *policy.Policy) []target {
	root, lostRoot := rootServers(p), lostServers(p, dnsname.Root())
	var all []target
	if len(root) > 0 {
		all = append(all, target{dnsname.Root(), root, references(slices.Concat(root, lostRoot), false)})
	}
	for _, won := range p.Won {
		if won.Domain.IsRoot() || won.Kind != nameserver.Ask || len(won.Servers) == 0 || p.IsOfCluster(won.Domain) {
			continue
		}
		if len(all) == maxTrials {
			break
		}
		r := target{won.Domain, won.Servers, references(won.Servers, false)}
		if won.Source == nameserver.NodeDNS {
			// A rollout changes only this source. Compare with the node's nameservers without the
			// route, in case it names the wrong ones. Other sources change on all nodes at once.
			r.references = append(r.references, references(slices.Concat(lostServers(p, won.Domain), root, lostRoot), true)...)
		}
		all = append(all, r)
	}
	return all
}

// rootServers returns the servers of the root route.
func rootServers(p *policy.Policy) []nameserver.Server {
	for _, r := range p.Routes {
		if r.Domain.IsRoot() && !r.Plain {
			return r.Servers
		}
	}
	return nil
}

// lostServers returns the nameservers of sources that lost a domain, such as the node's own if the
// configuration has upstreams.
func lostServers(p *policy.Policy, domain dnsname.Name) (all []nameserver.Server) {
	for _, lost := range p.Lost {
		if lost.Domain == domain && !lost.Plain && lost.Kind == nameserver.Ask && lost.Barred == "" {
			all = append(all, lost.Servers...)
		}
	}
	return all
}

// references returns the first plain nameservers.
func references(servers []nameserver.Server, areOthers bool) (all []reference) {
	for _, s := range servers {
		if r := (reference{s, areOthers}); !s.TLS && len(all) < maxReferences && !slices.Contains(all, r) {
			all = append(all, r)
		}
	}
	return all
}
