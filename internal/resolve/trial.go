package resolve

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
)

const (
	// TrialInterval is the interval between end-to-end questions. The third failure in a row must
	// come well before the minReadySeconds of the chart have passed.
	TrialInterval = 5 * time.Second
	// trialFailures in a row make the daemon not ready.
	trialFailures = 3
	// longestTrial is the longest interval between questions to nameservers that do not answer.
	longestTrial = time.Minute
	// trialTimeout bounds a question. The daemon gives up on a query after 5 s.
	trialTimeout = 5500 * time.Millisecond
	// referenceTimeout bounds a direct question to a nameserver.
	referenceTimeout = time.Second
)

// Trials asks end-to-end questions, so that a rollout stops at a node where node-dns fails: see
// docs/howto/canary.md. Only one goroutine uses it.
//
// The cluster's name is answered from memory, and is asked for as long as the daemon runs. The
// nameservers of a route are asked until they have answered once, and again when they change. A
// later outage of theirs must not make all nodes not ready: the controller of DaemonSets replaces
// pods that are not ready without regard to maxUnavailable.
type Trials struct {
	Resolver *Resolver
	cluster  int // failures in a row
	routes   []*trialRoute
}

// trialRoute is the state of the questions to the nameservers of a route.
type trialRoute struct {
	policy.Target
	isPassed bool // they have answered
	failures int  // in a row
	silent   int  // consecutive failures in which no reference answered
	next     time.Time
	verdict  string // why the daemon is not ready; empty if it is
}

// Failing asks the questions that are due, and returns why the daemon is not ready.
func (t *Trials) Failing(ctx context.Context) []string {
	p := t.Resolver.Policy()
	verdicts := append([]string{t.tryCluster(ctx, p)}, t.tryRoutes(ctx, p)...)
	return slices.DeleteFunc(verdicts, func(verdict string) bool { return verdict == "" })
}

// tryCluster asks for the API's name, which exists in every cluster. It returns why the daemon is
// not ready, or "".
func (t *Trials) tryCluster(ctx context.Context, p *policy.Policy) string {
	known := t.Resolver.Known()
	if known == nil || p.API == (policy.API{}) || len(p.Overrides) > 0 || known.Service(zone.Key{Namespace: "default", Name: "kubernetes"}) == nil {
		t.cluster = 0
		return ""
	}
	name := "kubernetes.default.svc." + p.Config.ClusterDomain.String()
	result := t.askSelf(ctx, name, dns.TypeA)
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
func (t *Trials) tryRoutes(ctx context.Context, p *policy.Policy) (failing []string) {
	t.routes = keepTrials(t.routes, p.Targets())
	left := slices.DeleteFunc(slices.Clone(t.routes), func(r *trialRoute) bool { return r.isPassed })
	if len(left) > 0 {
		answering := t.answering()
		var asking sync.WaitGroup
		for _, r := range left {
			asking.Go(func() { t.tryRoute(ctx, r, answering[r.Domain]) }) // the only one that uses r
		}
		asking.Wait()
	}
	for _, r := range t.routes {
		failing = append(failing, r.verdict)
	}
	return failing
}

// tryRoute asks a route, unless clients' queries have shown that its nameservers answer.
func (t *Trials) tryRoute(ctx context.Context, r *trialRoute, isAnswering bool) {
	now := time.Now()
	switch {
	case isAnswering:
		r.note(now, true, "", "")
		return
	case now.Before(r.next):
		return
	}
	name, qtype := trialQuestion(r.Domain)
	result, reference := t.askSelf(ctx, name, qtype), ""
	isAnswered := isFinal(result)
	if !isAnswered && r.failures+1 >= trialFailures {
		reference = t.findReference(ctx, r.Target)
	}
	r.note(time.Now(), isAnswered, result, reference)
}

// note applies the result of a question. reference is a nameserver that answers it directly, or "".
// Without one the nameservers themselves fail, as they would without node-dns.
func (r *trialRoute) note(now time.Time, isAnswered bool, result, reference string) {
	if isAnswered {
		*r = trialRoute{Target: r.Target, isPassed: true}
		return
	}
	r.failures++
	r.next = now.Add(min(TrialInterval<<max(0, min(r.failures-trialFailures, 8)), longestTrial))
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
	if !r.Domain.IsRoot() {
		whose = "the nameservers of " + r.Domain.String()
	}
	r.verdict = fmt.Sprintf("%s do not answer through node-dns (%s), but %s answers", whose, result, reference)
}

// trialQuestion returns a question that the nameservers of a route answer: `node-dns doctor` asks
// the same.
func trialQuestion(domain dnsname.Name) (name string, qtype uint16) {
	if domain.IsRoot() {
		return ".", dns.TypeNS // every resolver answers it from memory
	}
	return domain.String(), dns.TypeSOA
}

// answering returns the domains of the routes that have a nameserver that has answered a client's
// query.
func (t *Trials) answering() map[dnsname.Name]bool {
	all := map[dnsname.Name]bool{}
	for _, r := range t.Resolver.Forward().Status() {
		if !r.Plain && slices.ContainsFunc(r.Servers, func(s forward.ServerStatus) bool {
			return s.State == exchange.Up && s.RTT > 0 && s.Refusals == 0 && s.Asked > s.Failed
		}) {
			all[r.Domain] = true
		}
	}
	return all
}

// askSelf asks the daemon itself, past the cache, and returns the response code. It is no client's
// query: no counter of the listeners includes it.
func (t *Trials) askSelf(ctx context.Context, name string, qtype uint16) string {
	ctx, cancel := context.WithTimeout(ctx, trialTimeout)
	defer cancel()
	loopback := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 0)
	handler := dnsserver.HandlerFunc(func(ctx context.Context, q *dnsserver.Query) (*dns.Msg, error) {
		q.Inquiry = &dnsserver.Inquiry{SkipCache: true}
		return t.Resolver.ServeOwn(ctx, q)
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
func (t *Trials) findReference(ctx context.Context, target policy.Target) string {
	name, qtype := trialQuestion(target.Domain)
	answers := make([]bool, len(target.References))
	var asking sync.WaitGroup
	for i, ref := range target.References {
		asking.Go(func() {
			rcode := t.askDirectly(ctx, ref.Server, name, qtype)
			answers[i] = isFinal(rcode) && (!ref.IsOther || rcode == dns.RcodeToString[dns.RcodeSuccess])
		})
	}
	asking.Wait()
	if i := slices.Index(answers, true); i >= 0 {
		return target.References[i].Server.String()
	}
	return ""
}

// askDirectly returns the response code of a nameserver, or "" if it does not respond.
func (t *Trials) askDirectly(ctx context.Context, server nameserver.Server, name string, qtype uint16) string {
	response, err := askOnce(ctx, t.Resolver.Forward().DialUDP, server, new(dns.Msg).SetQuestion(name, qtype), referenceTimeout)
	if err != nil {
		return ""
	}
	return dns.RcodeToString[response.Rcode]
}

// keepTrials returns a trial for each route. A route whose domain and nameservers are those of an
// earlier one keeps its state.
func keepTrials(before []*trialRoute, targets []policy.Target) []*trialRoute {
	all := make([]*trialRoute, 0, len(targets))
	for _, t := range targets {
		now := &trialRoute{}
		i := slices.IndexFunc(before, func(b *trialRoute) bool { return b.Domain == t.Domain && slices.Equal(b.Servers, t.Servers) })
		if i >= 0 {
			now = before[i]
		}
		now.Target = t
		all = append(all, now)
	}
	return all
}
