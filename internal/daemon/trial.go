package daemon

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/miekg/dns"

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
	// longestTrial is the longest interval between questions to upstreams that do not answer.
	longestTrial = time.Minute
	// trialTimeout bounds a question. The daemon gives up on a query after 5 s.
	trialTimeout = 5500 * time.Millisecond
	// maxReferences is the number of nameservers that are queried directly after a failure.
	maxReferences = 4
)

// trial asks end-to-end questions, so that a rollout stops at a node where node-dns fails: see
// docs/howto/canary.md. Only one goroutine uses it.
//
// The cluster's name is answered from memory, and is asked for as long as the daemon runs. The
// upstreams are asked until they have answered once, and again when they change. A later outage of
// theirs must not make all nodes not ready: the controller of DaemonSets replaces pods that are not
// ready without regard to maxUnavailable.
type trial struct {
	*Daemon
	cluster   int // failures in a row
	upstreams upstreamTrial
	redirect  redirectTrial
}

// upstreamTrial is the state of the questions to a set of upstreams.
type upstreamTrial struct {
	servers  []nameserver.Server
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
			t.cluster, t.upstreams = 0, upstreamTrial{}
			t.view.Failing.Store(&[]string{})
			continue
		}
		failing := slices.DeleteFunc([]string{t.tryCluster(ctx, p), t.tryUpstreams(ctx, p)}, func(s string) bool { return s == "" })
		if ctx.Err() != nil {
			return nil
		}
		t.logProblems(*t.view.Failing.Swap(&failing), failing, nil)
	}
	return nil
}

// tryCluster asks for the API's name, which exists in every cluster. It returns why the daemon is not
// ready, or "".
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

// tryUpstreams asks a question that every resolver answers from memory, unless clients' queries
// have shown that the upstreams answer. It returns why the daemon is not ready, or "".
func (t *trial) tryUpstreams(ctx context.Context, p *policy.Policy) string {
	u, now := &t.upstreams, time.Now()
	if servers := rootServers(p); !slices.Equal(servers, u.servers) {
		*u = upstreamTrial{servers: servers}
	}
	if len(u.servers) == 0 || u.isPassed || now.Before(u.next) {
		return u.verdict
	}
	if t.hasAnswered() {
		u.note(now, true, "", "")
		return ""
	}
	result, reference := t.ask(ctx, ".", dns.TypeNS), ""
	isAnswered := isFinal(result)
	if !isAnswered && u.failures+1 >= trialFailures {
		reference = t.findReference(ctx, references(p))
	}
	u.note(time.Now(), isAnswered, result, reference)
	return u.verdict
}

// note applies the result of a question. reference is a nameserver that answers it directly, or "".
// Without one the upstreams themselves fail, as they would without node-dns.
func (u *upstreamTrial) note(now time.Time, isAnswered bool, result, reference string) {
	if isAnswered {
		*u = upstreamTrial{servers: u.servers, isPassed: true}
		return
	}
	u.failures++
	u.next = now.Add(min(trialEvery<<max(0, min(u.failures-trialFailures, 8)), longestTrial))
	if u.failures < trialFailures {
		u.next = time.Time{}
		return
	}
	if reference == "" {
		if u.silent++; u.silent >= trialFailures {
			u.verdict = ""
		}
		return
	}
	u.silent = 0
	u.verdict = fmt.Sprintf("the upstream nameservers do not answer through node-dns (%s), but %s answers", result, reference)
}

// hasAnswered reports whether an upstream has answered a client's query.
func (t *trial) hasAnswered() bool {
	for _, r := range t.resolver.Forward().Status() {
		if r.Domain.IsRoot() && !r.Plain && slices.ContainsFunc(r.Servers, func(s forward.ServerStatus) bool {
			return s.State == exchange.Up && s.RTT > 0 && s.Refusals == 0
		}) {
			return true
		}
	}
	return false
}

// ask asks the daemon itself, past the cache, and returns the response code. It is no client's query:
// no counter of the listeners includes it.
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

// findReference returns the first nameserver that answers directly, or "".
func (t *trial) findReference(ctx context.Context, servers []nameserver.Server) string {
	for _, server := range servers {
		if t.answersDirectly(ctx, server) {
			return server.String()
		}
	}
	return ""
}

func (t *trial) answersDirectly(ctx context.Context, server nameserver.Server) bool {
	socket, err := t.loops.Dial(ctx, server)
	if err != nil {
		return false
	}
	defer socket.Close()
	conn := &dns.Conn{Conn: socket}
	defer context.AfterFunc(ctx, func() { conn.Close() })() // ExchangeContext does not return when ctx ends
	client := dns.Client{Timeout: time.Second}
	response, _, err := client.ExchangeWithConnContext(ctx, new(dns.Msg).SetQuestion(".", dns.TypeNS), conn)
	return err == nil && isFinal(dns.RcodeToString[response.Rcode])
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

// references returns the nameservers to compare with: the upstreams, and those of sources that lost
// against them, such as the node's own if the configuration has upstreams.
func references(p *policy.Policy) []nameserver.Server {
	all := slices.Clone(rootServers(p))
	for _, lost := range p.Lost {
		if lost.Domain.IsRoot() && !lost.Plain && lost.Kind == nameserver.Ask && lost.Barred == "" {
			all = append(all, lost.Servers...)
		}
	}
	var plain []nameserver.Server
	for _, s := range all {
		if !s.TLS && !slices.Contains(plain, s) {
			plain = append(plain, s)
		}
	}
	return plain[:min(len(plain), maxReferences)]
}
