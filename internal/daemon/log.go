package daemon

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/admin/view"
	"github.com/node-dns/node-dns/internal/dns/forward"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/policy"
	"github.com/node-dns/node-dns/internal/sys/journal"
)

// logListeners logs changes of the listeners: an address that cannot be bound once per reason, and
// again when it is bound.
func (d *Daemon) logListeners(before, after []control.Listener) {
	change := changeOfListeners(before, after)
	if len(change.opened) > 0 {
		d.log.Info("listening", "addresses", journal.Few(change.opened, " "), journal.Listening.Attr())
	}
	if len(change.closed) > 0 {
		d.log.Info("stopped listening", "addresses", journal.Few(change.closed, " "))
	}
	if len(change.spared) > 0 {
		d.log.Info("another program uses an address that is also configured for node-dns", "addresses", journal.Few(change.spared, " "))
	}
	for _, reason := range slices.Sorted(maps.Keys(change.failed)) {
		d.log.Warn("cannot listen", "addresses", journal.Few(change.failed[reason], " "), "error", reason, journal.ListenFailed.Attr())
	}
}

// logReady logs whether queries are answered, unless that is already logged.
func (f *follower) logReady() {
	listening := len(f.view.Listening())
	switch {
	case listening > 0 && f.saidReady != journal.Ready:
		f.saidReady = journal.Ready
		f.log.Info("ready", "version", f.config.Version, "addresses", listening, journal.Ready.Attr())
	case f.policy().LeftTo != "": // logLeft
	case listening == 0 && f.saidReady != journal.NotReady:
		f.saidReady = journal.NotReady
		f.log.Warn("not ready: not listening", "version", f.config.Version, journal.NotReady.Attr())
	}
}

// logLeft logs when the host is left to another node-dns, and when it no longer is.
func (d *Daemon) logLeft(before, after string) {
	switch {
	case before == "" && after != "":
		d.log.Info("leaving this node to another node-dns until that ends", "by", after)
	case before != "" && after == "":
		d.log.Info("the other node-dns of this node has ended", "by", before)
	}
}

// logLoops logs the upstreams that began or stopped sending our queries back.
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
		d.log.Warn("ignoring upstreams that send queries back to this node", "servers", journal.Few(came, " "), journal.UpstreamLoop.Attr())
	}
	if went := without(before, after); len(went) > 0 {
		d.log.Info("upstreams no longer send queries back to this node", "servers", journal.Few(went, " "))
	}
}

func (d *Daemon) logRoutes(before, after []forward.Route) {
	d.log.Info("routes", "routes", journal.Few(view.RouteWords(after), " "), "before", journal.Few(view.RouteWords(before), " "))
	for _, line := range view.NameserverLines(after) {
		d.plain.Info(line)
	}
}

// logProblems logs new and solved problems. fault is the one among them that is in the
// configuration, or nil.
func (d *Daemon) logProblems(before, after []string, fault error) {
	without := func(all, known []string) []string {
		return slices.DeleteFunc(slices.Clone(all), func(p string) bool { return slices.Contains(known, p) })
	}
	came, went := without(after, before), without(before, after)
	for _, problem := range came[:min(len(came), journal.MaxFew)] {
		if fault != nil && problem == fault.Error() {
			d.log.Error("the new configuration is invalid; keeping the running one", "error", problem, journal.ConfigFault.Attr())
			continue
		}
		d.log.Warn("problem", "problem", problem, journal.Problem.Attr())
	}
	if more := len(came) - journal.MaxFew; more > 0 {
		d.log.Warn("more problems; node-dns status shows them", "count", more)
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

// setProblems replaces the problems that the status reports, and logs the changes.
func (f *follower) setProblems(seen *view.Host, s *policy.Policy) {
	now := slices.Concat(s.Problems, seen.Problems())
	inVain := f.request.Problem()
	if inVain != "" && seen.Plan.OverwrittenBy != "" {
		inVain = "/etc/resolv.conf is overwritten by " + seen.Plan.OverwrittenBy // the request was processed
	}
	for _, problem := range []string{inVain, f.unready, f.unasked, f.unkept} {
		if problem != "" {
			now = append(now, problem)
		}
	}
	slices.Sort(now)
	now = slices.Compact(now)
	f.view.Metrics.Config.Look(errors.Join(seen.ConfigErr, seen.DnsmasqErr))
	f.logProblems(*f.view.Problems.Swap(&now), now, seen.ConfigErr)
	f.busChanged()
}

// announce and withdraw maintain the ready file, which exists while queries are answered.
func (f *follower) announce() {
	f.logReady()
	if len(f.view.Listening()) == 0 {
		f.withdraw()
		return
	}
	f.unready = ""
	err := errors.Join(os.MkdirAll(f.paths.run, 0o755), os.WriteFile(f.paths.ready, nil, 0o644))
	if err != nil {
		f.unready = fmt.Sprintf("cannot write the ready file: %v", err)
	}
}

func (d *Daemon) withdraw() {
	if err := os.Remove(d.paths.ready); err != nil && !errors.Is(err, os.ErrNotExist) {
		d.log.Warn("ready file", "error", err)
	}
}

// listenerChange is the difference between two states of the listeners.
type listenerChange struct {
	opened, closed []string            // addresses that are newly bound, or no longer bound
	spared         []string            // addresses that another program holds, as allowed
	failed         map[string][]string // other addresses that are not bound, by a reason that is new for them
}

// showStacks writes the stacks of all goroutines, like Go does after SIGABRT.
func (d *Daemon) showStacks() {
	const most = 1 << 20
	if d.config.Stacks == nil {
		return
	}
	stacks := make([]byte, most)
	if _, err := d.config.Stacks.Write(stacks[:runtime.Stack(stacks, true)]); err != nil {
		d.log.Warn("cannot write the stacks", "error", err)
	}
}
