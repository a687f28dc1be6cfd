package daemon

import (
	"maps"
	"slices"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/admin/view"
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
func (f *follower) logReady() {
	listening := len(f.view.Listening())
	switch {
	case listening > 0 && f.saidReady != journal.Ready:
		f.saidReady = journal.Ready
		f.log.Info("ready", "version", f.config.Version, "addresses", listening, journal.Ready.Attr())
	case listening == 0 && f.saidReady != journal.NotReady:
		f.saidReady = journal.NotReady
		f.log.Warn("not ready: listening nowhere", "version", f.config.Version, journal.NotReady.Attr())
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
	d.log.Info("routes", "routes", journal.Few(view.RouteWords(after), " "), "before", journal.Few(view.RouteWords(before), " "))
	for _, line := range view.NameserverLines(after) {
		d.plain.Info(line)
	}
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
