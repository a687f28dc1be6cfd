package doctor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/sys/termtext"
)

const (
	// manyFailures is the share of failures in the last minute's responses that is reported, and
	// fewFailures their minimum number.
	manyFailures = 0.05
	fewFailures  = 5
	// blamedServers is the maximum number of servers named in the message.
	blamedServers = 2
)

// checkRecent reports failures among the responses of the last minute, with the route and the
// client that most of them belong to. Without responses there is nothing to report.
func checkRecent(s Snapshot) []Finding {
	if s.Status == nil || s.Status.LastMinute == nil || s.Status.LastMinute.Responses == 0 {
		return nil
	}
	l := *s.Status.LastMinute
	what := fmt.Sprintf("clients got %d SERVFAIL and %d REFUSED in %d responses in the last minute", l.ServFail, l.Refused, l.Responses)
	failures := l.ServFail + l.Refused - min(l.Refused, l.Strangers)
	if failures < fewFailures || float64(failures) < manyFailures*float64(l.Responses) {
		return []Finding{{Level: OK, What: what}}
	}
	var most []string
	monitor := "node-dns monitor --rcode SERVFAIL"
	if len(l.Routes) > 0 && isMost(l.Routes[0].ServFail+l.Routes[0].Refused, l.Recorded) {
		most = append(most, s.mostOnRoute(l))
	}
	if len(l.Clients) > 0 && isMost(l.Clients[0].ServFail+l.Clients[0].Refused, l.Recorded) {
		c := l.Clients[0]
		most = append(most, fmt.Sprintf("%d to %s", c.ServFail+c.Refused, control.ClientText(c.Client, c.Pod)))
		monitor += " --client " + termtext.Quote(c.Client)
	}
	if len(most) > 0 {
		sampled := ""
		if l.Recorded < failures {
			sampled = fmt.Sprintf("of %d recorded, ", l.Recorded)
		}
		what += ": " + sampled + strings.Join(most, "; ")
	}
	return []Finding{warn(what, monitor+" shows which names, and node-dns doctor --name NAME checks one", recentDetails(l)...)}
}

// isMost reports whether n are more than half of all.
func isMost(n, all uint64) bool { return 2*n > all }

// mostOnRoute names the route with the most failures, and what its servers do.
func (s Snapshot) mostOnRoute(l control.LastMinute) string {
	route := l.Routes[0]
	text := fmt.Sprintf("%d on route %s", route.ServFail+route.Refused, route.Domain)
	if blamed := s.blamed(route.Domain, l.Servers); len(blamed) > 0 {
		text += " (" + strings.Join(blamed, ", ") + ")"
	}
	return text
}

// blamed says what is wrong with the servers of a route.
func (s Snapshot) blamed(domain string, minutes []control.ServerMinute) (all []string) {
	for _, route := range s.Status.Routes {
		for _, server := range route.Servers {
			i := slices.IndexFunc(minutes, func(m control.ServerMinute) bool { return m.Address == server.Address })
			if route.Domain != domain || i < 0 || len(all) == blamedServers {
				continue
			}
			switch m := minutes[i]; {
			case isMost(m.Failures, m.Queries):
				all = append(all, m.Address+" does not answer")
			case isMost(m.Refusals, m.Queries):
				all = append(all, m.Address+" answers SERVFAIL or REFUSED")
			default:
				all = append(all, fmt.Sprintf("%s fails for %d of %d queries", m.Address, m.Failures+m.Refusals, m.Queries))
			}
		}
	}
	return all
}

// recentDetails lists the failures by server, route, client and reason.
func recentDetails(l control.LastMinute) (details []string) {
	for _, server := range l.Servers {
		details = append(details, fmt.Sprintf("%s: %d queries, %d without a response, %d SERVFAIL, REFUSED or similar", server.Address, server.Queries, server.Failures, server.Refusals))
	}
	for _, r := range l.Routes {
		details = append(details, fmt.Sprintf("route %s: clients got %s; %d of %d queries to its servers had no answer", r.Domain, failedWords(r.ServFail, r.Refused), r.Unanswered, r.Queries))
	}
	for _, c := range l.Clients {
		details = append(details, fmt.Sprintf("client %s: %s", control.ClientText(c.Client, c.Pod), failedWords(c.ServFail, c.Refused)))
	}
	for _, r := range l.Reasons {
		details = append(details, fmt.Sprintf("reason %q: %s", r.Reason, failedWords(r.ServFail, r.Refused)))
	}
	if l.Limited > 0 {
		details = append(details, fmt.Sprintf("%d queries hit a limit: node-dns status shows which", l.Limited))
	}
	return details
}

func failedWords(servFail, refused uint64) string {
	return fmt.Sprintf("%d SERVFAIL, %d REFUSED", servFail, refused)
}
