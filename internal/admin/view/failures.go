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
	// maxReason is the maximum length of a reason in bytes. Some come from upstream nameservers.
	maxReason = 512
	// shownFailed limits each list in the status.
	shownFailed = 5
)

// Keys by which failures are counted.
const (
	byClient = iota
	byRoute
	byReason
)

// failureKeys limits the keys recorded between two samples of LastMinute. The eight samples take
// 250 KB.
var failureKeys = [...]int{byClient: 64, byRoute: 32, byReason: 16}

// failures records SERVFAIL and REFUSED responses since the last sample of LastMinute. Its memory
// is bounded. The methods are safe for concurrent use.
type failures struct {
	window perSecond

	mu       sync.Mutex // guards the fields below
	recorded uint64
	counts   [len(failureKeys)]*stats.Sketch[failed]
}

// failed counts failures by response code.
type failed struct{ servFail, refused uint64 }

func (f failed) sum() uint64 { return f.servFail + f.refused }

// failedSums are the recorded failures of a period. The counts of rare keys may be too low.
type failedSums struct {
	recorded uint64
	counts   [len(failureKeys)]map[string]failed
}

func newFailures() *failures {
	f := new(failures)
	f.forgetLocked()
	return f
}

func (f *failures) forgetLocked() {
	f.recorded = 0
	for by, size := range failureKeys {
		f.counts[by] = stats.NewSketch[failed](size)
	}
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
	for by, key := range [...]string{byClient: client, byRoute: route, byReason: reason} {
		switch {
		case key == "":
		case rcode == dns.RcodeRefused:
			f.counts[by].Add(key, 1).refused++
		default:
			f.counts[by].Add(key, 1).servFail++
		}
	}
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
	s := failedSums{recorded: f.recorded}
	for by, count := range f.counts {
		s.counts[by] = map[string]failed{}
		for key, e := range count.Entries {
			s.counts[by][key] = e.Details
		}
	}
	return s
}

// add adds the failures of another period.
func (s *failedSums) add(other failedSums) {
	s.recorded += other.recorded
	for by, from := range other.counts {
		if s.counts[by] == nil {
			s.counts[by] = map[string]failed{}
		}
		for key, n := range from {
			had := s.counts[by][key]
			s.counts[by][key] = failed{had.servFail + n.servFail, had.refused + n.refused}
		}
	}
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
	clients := s.counts[byClient]
	for _, key := range mostFailed(clients) {
		all = append(all, control.ClientMinute{Client: key, ServFail: clients[key].servFail, Refused: clients[key].refused})
	}
	return all
}

func (s failedSums) reasonMinutes() (all []control.ReasonMinute) {
	reasons := s.counts[byReason]
	for _, key := range mostFailed(reasons) {
		all = append(all, control.ReasonMinute{Reason: key, ServFail: reasons[key].servFail, Refused: reasons[key].refused})
	}
	return all
}

// routeMinutes returns the routes whose servers left queries without an answer since the earlier
// sample, or with failed responses, worst first. A new route, or one whose counters were reset,
// counts from zero.
func (s failedSums) routeMinutes(before, now []control.RouteMinute) []control.RouteMinute {
	var all []control.RouteMinute
	routes := s.counts[byRoute]
	for _, r := range now {
		i := slices.IndexFunc(before, func(b control.RouteMinute) bool {
			return b.Domain == r.Domain && b.Queries <= r.Queries && b.Unanswered <= r.Unanswered
		})
		if i >= 0 {
			r.Queries, r.Unanswered = r.Queries-before[i].Queries, r.Unanswered-before[i].Unanswered
		}
		r.ServFail, r.Refused = routes[r.Domain].servFail, routes[r.Domain].refused
		if r.Unanswered+r.ServFail+r.Refused > 0 {
			all = append(all, r)
		}
	}
	for domain, n := range routes { // zones of the cluster, and routes that are gone
		if !slices.ContainsFunc(now, func(r control.RouteMinute) bool { return r.Domain == domain }) {
			all = append(all, control.RouteMinute{Domain: domain, ServFail: n.servFail, Refused: n.refused})
		}
	}
	slices.SortFunc(all, func(a, b control.RouteMinute) int {
		return cmp.Or(cmp.Compare(b.ServFail+b.Refused, a.ServFail+a.Refused), cmp.Compare(b.Unanswered, a.Unanswered), cmp.Compare(a.Domain, b.Domain))
	})
	return all[:min(len(all), shownFailed)]
}
