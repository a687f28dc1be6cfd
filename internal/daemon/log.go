package daemon

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"

	"github.com/node-dns/node-dns/internal/admin/view"
	"github.com/node-dns/node-dns/internal/policy"
	"github.com/node-dns/node-dns/internal/sys/journal"
)

// logReady logs whether queries are answered, unless that is already logged.
func (f *follower) logReady() {
	listening := len(f.view.Listening())
	switch {
	case listening > 0 && f.saidReady != journal.Ready:
		f.saidReady = journal.Ready
		f.log.Info("ready", "version", f.config.Version, "addresses", listening, journal.Ready.Attr())
	case f.policy().LeftTo != "": // see View.LogChange
	case listening == 0 && f.saidReady != journal.NotReady:
		f.saidReady = journal.NotReady
		f.log.Warn("not ready: not listening", "version", f.config.Version, journal.NotReady.Attr())
	}
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
	f.view.SetProblems(now, seen.ConfigErr)
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
