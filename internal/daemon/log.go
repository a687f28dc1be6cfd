package daemon

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/dns/forward"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/sys/journal"
)

// logListeners logs what became of the listeners: an address that cannot be bound once for each reason, and once more
// when it is bound.
func (d *Daemon) logListeners(before, after []control.Listener) {
	change := changeOfListeners(before, after)
	if len(change.opened) > 0 {
		d.log.Info("listening", "addresses", journal.Few(change.opened, " "), journal.Listening.Attr())
	}
	if len(change.closed) > 0 {
		d.log.Info("not listening any more", "addresses", journal.Few(change.closed, " "))
	}
	if len(change.spared) > 0 {
		d.log.Info("another program has an address that node-dns would serve too", "addresses", journal.Few(change.spared, " "))
	}
	for _, reason := range slices.Sorted(maps.Keys(change.failed)) {
		d.log.Warn("cannot listen", "addresses", journal.Few(change.failed[reason], " "), "error", reason, journal.ListenFailed.Attr())
	}
}

// logReady logs whether queries are answered, where the log does not say so already.
func (d *Daemon) logReady() {
	listening := len(d.listening())
	switch {
	case listening > 0 && d.saidReady != journal.Ready:
		d.saidReady = journal.Ready
		d.log.Info("ready", "version", d.config.Version, "addresses", listening, journal.Ready.Attr())
	case listening == 0 && d.saidReady != journal.NotReady:
		d.saidReady = journal.NotReady
		d.log.Warn("not ready: listening nowhere", "version", d.config.Version, journal.NotReady.Attr())
	}
}

// logLoops logs the upstreams that send our queries back, and those that do no more.
func (d *Daemon) logLoops(before, after map[nameserver.Server]struct{}) {
	without := func(all, known map[nameserver.Server]struct{}) (words []string) {
		for server := range all {
			if _, ok := known[server]; !ok {
				words = append(words, server.String())
			}
		}
		slices.Sort(words)
		return words
	}
	if came := without(after, before); len(came) > 0 {
		d.log.Warn("upstreams send our queries back and are left out", "servers", journal.Few(came, " "), journal.UpstreamLoop.Attr())
	}
	if went := without(before, after); len(went) > 0 {
		d.log.Info("upstreams do not send our queries back any more", "servers", journal.Few(went, " "))
	}
}

func (d *Daemon) logRoutes(before, after []forward.Route) {
	d.log.Info("routes", "routes", journal.Few(routeWords(after), " "), "before", journal.Few(routeWords(before), " "))
	for _, line := range nameserverLines(after) {
		d.plain.Info(line)
	}
}

// maxNameserverLines is dnsmasq's SERVERS_LOGGED.
const maxNameserverLines = 30

// nameserverLines are dnsmasq 2.90's own lines of its servers, which admins and monitoring look for in the log. They say no
// more than the line before them.
func nameserverLines(routes []forward.Route) (lines []string) {
	for _, route := range routes {
		what := ""
		switch {
		case route.Plain:
			what = "unqualified names"
		case !route.Domain.IsRoot():
			what = route.Domain.Relative()
		}
		if route.Local {
			lines = append(lines, "using only locally-known addresses for "+what)
			continue
		}
		if what != "" && !route.Plain {
			what = "domain " + what
		}
		for _, server := range route.Servers {
			line := "using nameserver " + server.Addr.Addr().String() + "#" + strconv.Itoa(int(server.Addr.Port()))
			if server.Interface != "" {
				line += "(via " + server.Interface + ")"
			}
			if what != "" {
				line += " for " + what
			}
			lines = append(lines, line)
		}
	}
	if more := len(lines) - maxNameserverLines; more > 0 {
		lines = append(lines[:maxNameserverLines], fmt.Sprintf("using %d more nameservers", more))
	}
	return lines
}

func routeWords(routes []forward.Route) []string {
	var words []string
	for _, route := range routes {
		var servers []string
		for _, server := range route.Servers {
			servers = append(servers, server.String())
		}
		words = append(words, routeWord(route.Domain, route.Plain)+"="+journal.Few(servers, ","))
	}
	return words
}

// logProblems logs the problems that are new, and those that are no more. fault is the one among them that the
// configuration has; nil: none.
func (d *Daemon) logProblems(before, after []string, fault error) {
	without := func(all, known []string) []string {
		return slices.DeleteFunc(slices.Clone(all), func(p string) bool { return slices.Contains(known, p) })
	}
	came, went := without(after, before), without(before, after)
	for _, problem := range came[:min(len(came), journal.MaxFew)] {
		if fault != nil && problem == fault.Error() {
			d.log.Error("configuration has faults: the running one stays", "error", problem, journal.ConfigFault.Attr())
			continue
		}
		d.log.Warn("problem", "problem", problem, journal.Problem.Attr())
	}
	if more := len(came) - journal.MaxFew; more > 0 {
		d.log.Warn("more problems: node-dns status shows them", "count", more)
	}
	for _, problem := range went[:min(len(went), journal.MaxFew)] {
		d.log.Info("problem solved", "problem", problem, journal.ProblemSolved.Attr())
	}
}

func (d *Daemon) logNotes(before, after []string) {
	for _, note := range after {
		if !slices.Contains(before, note) {
			d.log.Warn("note", "note", note)
		}
	}
}
