package view

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/sys/stats"
)

const (
	// failureRate is the maximum number of failures recorded per second. If there are more, the
	// recorded ones are a sample.
	failureRate = 200
	// Limits on the keys recorded between two samples of LastMinute. The eight samples take 250 KB.
	failedClients, failedRoutes, failedReasons = 64, 32, 16
	// maxReason is the maximum length of a reason in bytes. Some come from upstream nameservers.
	maxReason = 512
	// shownFailed limits each list in the status.
	shownFailed = 5
)

// failures records SERVFAIL and REFUSED responses since the last sample of LastMinute. Its memory
// is bounded. The methods are safe for concurrent use.
type failures struct {
	window perSecond

	mu       sync.Mutex // guards the fields below
	recorded uint64
	clients  *stats.Sketch[failed]
	routes   *stats.Sketch[failed]
	reasons  *stats.Sketch[failed]
}

// failed counts failures by response code.
type failed struct{ servFail, refused uint64 }

func (f failed) sum() uint64 { return f.servFail + f.refused }

// failedSums are the recorded failures of a period. The counts of rare keys may be too low.
type failedSums struct {
	recorded                 uint64
	clients, routes, reasons map[string]failed
}

func newFailures() *failures {
	f := new(failures)
	f.forgetLocked()
	return f
}

func (f *failures) forgetLocked() {
	f.recorded = 0
	f.clients, f.routes, f.reasons = stats.NewSketch[failed](failedClients), stats.NewSketch[failed](failedRoutes), stats.NewSketch[failed](failedReasons)
}

// Failed is the callback of dnsserver.Config. It records a SERVFAIL or REFUSED response.
func (v *View) Failed(seen dnsserver.Seen) {
	if !v.failures.window.take(time.Now().Unix(), failureRate) {
		return
	}
	settleOutcome(&seen)
	rcode, _ := seenRcode(&seen)
	v.failures.add(seenClient(&seen), v.failedRoute(&seen), failedReason(&seen), rcode)
}

// failedRoute returns the domain of the cluster zone or the route that the name belongs to. It is
// empty if the query was answered before routes count.
func (v *View) failedRoute(seen *dnsserver.Seen) string {
	switch seen.Outcome {
	case dnsserver.ByHandler, dnsserver.ByServer:
		return ""
	}
	name := dnsserver.Domain(seenName(seen))
	if zone := v.resolver.ZoneOf(name); !zone.IsZero() {
		return zone.String()
	}
	route, ok := v.resolver.Forward().Match(name)
	if !ok {
		return ""
	}
	return routeWord(route.Domain, route.Plain)
}

// failedReason returns the reason for a failure, even if the client gets only the RCODE.
func failedReason(seen *dnsserver.Seen) string {
	switch {
	case seen.Why != "":
		return dnsserver.CutText(seen.Why, maxReason)
	case seen.Outcome == dnsserver.ByUpstream:
		return "response of " + seen.Server.String()
	}
	return "response of node-dns"
}

// add records a failure. Empty keys are not recorded.
func (f *failures) add(client, route, reason string, rcode int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.recorded++
	count := func(in *stats.Sketch[failed], key string) {
		switch {
		case key == "":
		case rcode == dns.RcodeRefused:
			in.Add(key, 1).refused++
		default:
			in.Add(key, 1).servFail++
		}
	}
	count(f.clients, client)
	count(f.routes, route)
	count(f.reasons, reason)
}

// read returns the failures since the last take.
func (f *failures) read() failedSums {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.readLocked()
}

// take is like read, and resets the sums to zero.
func (f *failures) take() failedSums {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.readLocked()
	if f.recorded > 0 {
		f.forgetLocked()
	}
	return s
}

func (f *failures) readLocked() failedSums {
	counts := func(in *stats.Sketch[failed]) map[string]failed {
		all := map[string]failed{}
		for key, e := range in.Entries {
			all[key] = e.Details
		}
		return all
	}
	return failedSums{f.recorded, counts(f.clients), counts(f.routes), counts(f.reasons)}
}

// add adds the failures of another period.
func (s *failedSums) add(other failedSums) {
	s.recorded += other.recorded
	join := func(into *map[string]failed, from map[string]failed) {
		if *into == nil {
			*into = map[string]failed{}
		}
		for key, n := range from {
			had := (*into)[key]
			(*into)[key] = failed{had.servFail + n.servFail, had.refused + n.refused}
		}
	}
	join(&s.clients, other.clients)
	join(&s.routes, other.routes)
	join(&s.reasons, other.reasons)
}

// mostFailed returns the keys with the most failures, shownFailed at most.
func mostFailed(all map[string]failed) []string {
	keys := slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		return cmp.Or(cmp.Compare(all[b].sum(), all[a].sum()), cmp.Compare(a, b))
	})
	return keys[:min(len(keys), shownFailed)]
}

// clientMinutes and reasonMinutes convert the failures for the status.
func (s failedSums) clientMinutes() (all []control.ClientMinute) {
	for _, key := range mostFailed(s.clients) {
		all = append(all, control.ClientMinute{Client: key, ServFail: s.clients[key].servFail, Refused: s.clients[key].refused})
	}
	return all
}

func (s failedSums) reasonMinutes() (all []control.ReasonMinute) {
	for _, key := range mostFailed(s.reasons) {
		all = append(all, control.ReasonMinute{Reason: key, ServFail: s.reasons[key].servFail, Refused: s.reasons[key].refused})
	}
	return all
}

// routeMinutes returns the routes whose servers left queries without an answer since the earlier
// sample, or with failed responses, worst first. A new route, or one whose counters were reset,
// counts from zero.
func (s failedSums) routeMinutes(before, now []control.RouteMinute) []control.RouteMinute {
	var all []control.RouteMinute
	for _, r := range now {
		i := slices.IndexFunc(before, func(b control.RouteMinute) bool {
			return b.Domain == r.Domain && b.Queries <= r.Queries && b.Unanswered <= r.Unanswered
		})
		if i >= 0 {
			r.Queries, r.Unanswered = r.Queries-before[i].Queries, r.Unanswered-before[i].Unanswered
		}
		r.ServFail, r.Refused = s.routes[r.Domain].servFail, s.routes[r.Domain].refused
		if r.Unanswered+r.ServFail+r.Refused > 0 {
			all = append(all, r)
		}
	}
	for domain, n := range s.routes { // zones of the cluster, and routes that are gone
		if !slices.ContainsFunc(now, func(r control.RouteMinute) bool { return r.Domain == domain }) {
			all = append(all, control.RouteMinute{Domain: domain, ServFail: n.servFail, Refused: n.refused})
		}
	}
	slices.SortFunc(all, func(a, b control.RouteMinute) int {
		return cmp.Or(cmp.Compare(b.ServFail+b.Refused, a.ServFail+a.Refused), cmp.Compare(b.Unanswered, a.Unanswered), cmp.Compare(a.Domain, b.Domain))
	})
	return all[:min(len(all), shownFailed)]
}
