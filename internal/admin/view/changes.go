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
	for _, note := range without(after, before) {
		v.Log.Warn("note", "note", note)
	}
}

// without returns the strings that known lacks.
func without(all, known []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(text string) bool { return slices.Contains(known, text) })
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
	was, is := sorted(before), sorted(after)
	if came := without(is, was); len(came) > 0 {
		v.Log.Warn("ignoring upstreams that send queries back to this node", "servers", journal.Few(came, " "), journal.UpstreamLoop.Attr())
	}
	if went := without(was, is); len(went) > 0 {
		v.Log.Info("upstreams no longer send queries back to this node", "servers", journal.Few(went, " "))
	}
}

func sorted(servers map[nameserver.Server]struct{}) []string {
	words := control.Texts(slices.Collect(maps.Keys(servers)))
	slices.Sort(words)
	return words
}

// LogListeners logs changes of the listeners: an address that cannot be bound once per reason, and
// again when it is bound.
func (v *View) LogListeners(before, after []control.Listener) {
	var spared []string             // addresses that another program holds, as allowed
	failed := map[string][]string{} // other addresses that are not bound, by a reason that is new for them
	why := map[string]string{}      // why an address was not bound; empty if it was
	for _, l := range before {
		why[l.Address] = l.Error
	}
	for _, l := range after {
		switch {
		case l.Error == why[l.Address]:
		case l.Spare:
			spared = append(spared, l.Address)
		case l.IsFailed():
			failed[l.Error] = append(failed[l.Error], l.Address)
		}
	}
	was, is := bound(before), bound(after)
	if opened := without(is, was); len(opened) > 0 {
		v.Log.Info("listening", "addresses", journal.Few(opened, " "), journal.Listening.Attr())
	}
	if closed := without(was, is); len(closed) > 0 {
		v.Log.Info("stopped listening", "addresses", journal.Few(closed, " "))
	}
	if len(spared) > 0 {
		v.Log.Info("another program uses an address that is also configured for node-dns", "addresses", journal.Few(spared, " "))
	}
	for _, reason := range slices.Sorted(maps.Keys(failed)) {
		v.Log.Warn("cannot listen", "addresses", journal.Few(failed[reason], " "), "error", reason, journal.ListenFailed.Attr())
	}
}

// bound returns the addresses that are bound.
func bound(listeners []control.Listener) (addresses []string) {
	for _, l := range listeners {
		if l.Error == "" {
			addresses = append(addresses, l.Address)
		}
	}
	return addresses
}
