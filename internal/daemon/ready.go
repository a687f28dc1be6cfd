package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/node-dns/node-dns/internal/admin/view"
	"github.com/node-dns/node-dns/internal/policy"
	"github.com/node-dns/node-dns/internal/resolve"
	"github.com/node-dns/node-dns/internal/sys/journal"
	"github.com/node-dns/node-dns/internal/sys/supervise"
)

// watchAnswers asks end-to-end questions until ctx ends. The daemon is not ready while they fail.
func (d *Daemon) watchAnswers(ctx context.Context) error {
	trials, redirections := resolve.Trials{Resolver: d.resolver}, view.Redirections{View: d.view}
	for supervise.Sleep(ctx, d.config.TrialInterval) {
		redirections.Check(ctx)
		if d.policy().LeftTo != "" { // another node-dns serves the node
			trials = resolve.Trials{Resolver: d.resolver}
			d.view.Failing.Store(&[]string{})
			continue
		}
		failing := trials.Failing(ctx)
		if ctx.Err() != nil {
			return nil
		}
		d.view.SetFailing(failing)
	}
	return nil
}

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
