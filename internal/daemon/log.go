package daemon

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/node-dns/node-dns/internal/control"
	"github.com/node-dns/node-dns/internal/forward"
)

// fewWords is how many elements of a list a log line names.
const fewWords = 6

// few is a list for the log: its first elements, and how many there are beside them. A node has hundreds of addresses
// where `listen: all` meets a bridge with one for each pod.
func few(words []string, separator string) string {
	if len(words) <= fewWords {
		return strings.Join(words, separator)
	}
	return fmt.Sprintf("%s and %d more", strings.Join(words[:fewWords], separator), len(words)-fewWords)
}

// logListeners logs what became of the listeners: an address that cannot be bound once for each reason, and once more
// when it is bound.
func (d *Daemon) logListeners(before, after []control.Listener) {
	change := changeOfListeners(before, after)
	if len(change.opened) > 0 {
		d.log.Info("listening", "addresses", few(change.opened, " "))
	}
	if len(change.closed) > 0 {
		d.log.Info("not listening any more", "addresses", few(change.closed, " "))
	}
	for _, reason := range slices.Sorted(maps.Keys(change.failed)) {
		d.log.Warn("cannot listen", "addresses", few(change.failed[reason], " "), "error", reason)
	}
}

func (d *Daemon) logRoutes(before, after []forward.Route) {
	d.log.Info("routes", "routes", few(routeWords(after), " "), "before", few(routeWords(before), " "))
}

func routeWords(routes []forward.Route) []string {
	var words []string
	for _, route := range routes {
		var servers []string
		for _, server := range route.Servers {
			servers = append(servers, server.String())
		}
		words = append(words, route.Domain.String()+"="+few(servers, ","))
	}
	return words
}

// logProblems logs the problems that are new, and those that are no more.
func (d *Daemon) logProblems(before, after []string) {
	without := func(all, known []string) []string {
		return slices.DeleteFunc(slices.Clone(all), func(p string) bool { return slices.Contains(known, p) })
	}
	came, went := without(after, before), without(before, after)
	for _, problem := range came[:min(len(came), fewWords)] {
		d.log.Warn("problem", "problem", problem)
	}
	if more := len(came) - fewWords; more > 0 {
		d.log.Warn("more problems: node-dns status shows them", "count", more)
	}
	for _, problem := range went[:min(len(went), fewWords)] {
		d.log.Info("problem solved", "problem", problem)
	}
}

func (d *Daemon) logNotes(before, after []string) {
	for _, note := range after {
		if !slices.Contains(before, note) {
			d.log.Warn("note", "note", note)
		}
	}
}

// sameRoutes reports whether the same names go to the same servers. That another source named them changes nothing.
func sameRoutes(a, b []forward.Route) bool {
	return slices.EqualFunc(a, b, func(x, y forward.Route) bool {
		return x.Domain == y.Domain && slices.Equal(x.Servers, y.Servers)
	})
}
