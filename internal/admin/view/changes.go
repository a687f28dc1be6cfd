package view

import (
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/dns/forward"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/policy"
	"github.com/node-dns/node-dns/internal/sys/journal"
)

// LogStart logs and records the first Policy. by is the cause.
func (v *View) LogStart(p *policy.Policy, by string) {
	v.logRoutes(nil, p.Routes)
	v.NoteRoutes(by, p.Routes)
	v.logNotes(nil, p.Notes)
	v.logLeft("", p.LeftTo)
	v.Metrics.Config.Take(time.Now())
}

// LogChange logs and records how the Policy next differs from old. by is the cause. If queries take
// other routes, isRerouted is true, and forgotten is the number of cached answers that were dropped
// for that.
func (v *View) LogChange(old, next *policy.Policy, by string, isRerouted bool, forgotten int) {
	if !reflect.DeepEqual(old.Config, next.Config) {
		v.Log.Info("new configuration in effect", journal.ConfigTaken.Attr())
		v.Metrics.Config.Take(time.Now())
	}
	if was, is := old.Config, next.Config; was.ClusterDomain != is.ClusterDomain {
		v.Log.Info("cluster domain", "domain", is.ClusterDomain.String(), "before", was.ClusterDomain.String(), "source", next.ClusterSource)
	}
	if old.API != (policy.API{}) && next.API == (policy.API{}) {
		v.Log.Info("stopped watching the Kubernetes API", "kubeconfig", old.API.Kubeconfig)
	}
	if !reflect.DeepEqual(old.Dnsmasq, next.Dnsmasq) {
		v.Log.Info("new dnsmasq files in effect", "files", journal.Few(next.Dnsmasq.Files, " "), journal.ConfigTaken.Attr())
	}
	if isRerouted {
		v.logRoutes(old.Routes, next.Routes)
		v.NoteRoutes(by, next.Routes)
		v.Log.Info("flushed cached answers of former upstreams", "entries", forgotten)
	}
	v.logNotes(old.Notes, next.Notes)
	v.logLeft(old.LeftTo, next.LeftTo)
}

func (v *View) logRoutes(before, after []forward.Route) {
	v.Log.Info("routes", "routes", journal.Few(routeWords(after), " "), "before", journal.Few(routeWords(before), " "))
	for _, line := range nameserverLines(after) {
		v.Plain.Info(line)
	}
}

func (v *View) logNotes(before, after []string) {
	for _, note := range after {
		if !slices.Contains(before, note) {
			v.Log.Warn("note", "note", note)
		}
	}
}

// logLeft logs when the host is left to another node-dns, and when it no longer is.
func (v *View) logLeft(before, after string) {
	switch {
	case before == "" && after != "":
		v.Log.Info("leaving this node to another node-dns until that ends", "by", after)
	case before != "" && after == "":
		v.Log.Info("the other node-dns of this node has ended", "by", before)
	}
}

// SetProblems replaces the problems that the status reports, and logs the changes. fault is the one
// among them that is in the configuration, or nil.
func (v *View) SetProblems(now []string, fault error) {
	v.logProblems(*v.Problems.Swap(&now), now, fault)
}

// SetFailing replaces the end-to-end questions that fail, and logs the changes.
func (v *View) SetFailing(now []string) { v.logProblems(*v.Failing.Swap(&now), now, nil) }

// logProblems logs new and solved problems. fault is the one among them that is in the
// configuration, or nil.
func (v *View) logProblems(before, after []string, fault error) {
	without := func(all, known []string) []string {
		return slices.DeleteFunc(slices.Clone(all), func(p string) bool { return slices.Contains(known, p) })
	}
	came, went := without(after, before), without(before, after)
	for _, problem := range came[:min(len(came), journal.MaxFew)] {
		if fault != nil && problem == fault.Error() {
			v.Log.Error("the new configuration is invalid; keeping the running one", "error", problem, journal.ConfigFault.Attr())
			continue
		}
		v.Log.Warn("problem", "problem", problem, journal.Problem.Attr())
	}
	if more := len(came) - journal.MaxFew; more > 0 {
		v.Log.Warn("more problems; node-dns status shows them", "count", more)
	}
	for _, problem := range went[:min(len(went), journal.MaxFew)] {
		v.Log.Info("problem solved", "problem", problem, journal.ProblemSolved.Attr())
	}
}

// LogLoops logs the upstreams that began or stopped sending our queries back.
func (v *View) LogLoops(before, after map[nameserver.Server]struct{}) {
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
		v.Log.Warn("ignoring upstreams that send queries back to this node", "servers", journal.Few(came, " "), journal.UpstreamLoop.Attr())
	}
	if went := without(before, after); len(went) > 0 {
		v.Log.Info("upstreams no longer send queries back to this node", "servers", journal.Few(went, " "))
	}
}

// LogListeners logs changes of the listeners: an address that cannot be bound once per reason, and
// again when it is bound.
func (v *View) LogListeners(before, after []control.Listener) {
	change := changeOfListeners(before, after)
	if len(change.opened) > 0 {
		v.Log.Info("listening", "addresses", journal.Few(change.opened, " "), journal.Listening.Attr())
	}
	if len(change.closed) > 0 {
		v.Log.Info("stopped listening", "addresses", journal.Few(change.closed, " "))
	}
	if len(change.spared) > 0 {
		v.Log.Info("another program uses an address that is also configured for node-dns", "addresses", journal.Few(change.spared, " "))
	}
	for _, reason := range slices.Sorted(maps.Keys(change.failed)) {
		v.Log.Warn("cannot listen", "addresses", journal.Few(change.failed[reason], " "), "error", reason, journal.ListenFailed.Attr())
	}
}

// listenerChange is the difference between two states of the listeners.
type listenerChange struct {
	opened, closed []string            // addresses that are newly bound, or no longer bound
	spared         []string            // addresses that another program holds, as allowed
	failed         map[string][]string // other addresses that are not bound, by a reason that is new for them
}

func changeOfListeners(before, after []control.Listener) listenerChange {
	was := map[string]control.Listener{}
	for _, l := range before {
		was[l.Address] = l
	}
	change := listenerChange{failed: map[string][]string{}}
	is := map[string]bool{}
	for _, l := range after {
		old, known := was[l.Address]
		is[l.Address] = l.Error == ""
		switch {
		case l.Spare && l.Error != old.Error:
			change.spared = append(change.spared, l.Address)
		case l.IsFailed() && l.Error != old.Error:
			change.failed[l.Error] = append(change.failed[l.Error], l.Address)
		case l.Error == "" && (!known || old.Error != ""):
			change.opened = append(change.opened, l.Address)
		}
	}
	for _, l := range before {
		if l.Error == "" && !is[l.Address] {
			change.closed = append(change.closed, l.Address)
		}
	}
	return change
}
