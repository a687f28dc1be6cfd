package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/node-dns/node-dns/internal/policy"
	"github.com/node-dns/node-dns/internal/sys/supervise"
)

const (
	// settle is how long hints are gathered: a renewal is a dozen events within milliseconds, a carrier flap more.
	settle = 50 * time.Millisecond
	// listenAgain is how soon an address that could not be bound is tried again.
	listenAgain = time.Second
	// missedAgain is how soon a NetworkManager that has missed a deadline is asked again.
	missedAgain = time.Second
)

// Reasons of looks that nothing hinted at.
const (
	lookForStatus = "status"
	lookAgainSoon = "again"
	lookAtTime    = "time"
)

// follow looks again whenever something hints that it should, and takes over what has changed. It alone changes what
// is served.
func (d *Daemon) follow(ctx context.Context) error {
	again, tick := time.NewTimer(0), time.NewTicker(lookAgain)
	defer again.Stop()
	defer tick.Stop()
	look := func(reason string) {
		if wait := d.reconcile(ctx, reason); wait > 0 {
			again.Reset(wait)
		}
		d.fresh.looked()
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case order := <-d.reloads:
			order.done <- d.reloadNow(ctx, order.by)
		case change := <-d.busChanges:
			change.done <- d.takeOverBus(change.state)
		case first := <-d.fresh.asked:
			d.fresh.answer(ctx, first, func() { look(lookForStatus) })
		case reason := <-d.hints:
			if !supervise.Sleep(ctx, max(settle, time.Until(d.fresh.next))) {
				return nil
			}
			d.drainHints()
			look(reason)
		case <-again.C:
			look(lookAgainSoon)
		case <-tick.C:
			look(lookAtTime)
		}
	}
}

// drainHints drops the hints that came while things settled: the look that follows sees what they were about.
func (d *Daemon) drainHints() {
	select {
	case <-d.hints:
	default:
	}
}

// reconcile looks, takes over, and asks for what the privileged half must write. It says when to come back although
// nothing hints; zero: not.
func (d *Daemon) reconcile(ctx context.Context, reason string) time.Duration {
	before := d.host.Load()
	view, err := d.lookAtHost(ctx)
	if err != nil {
		return 0 // we stop
	}
	running := d.policy()
	config, again := d.follower.next(running.Config, view)
	files, alsoAgain := d.follower.nextDnsmasq(running.Dnsmasq, view)
	next := d.newPolicy(view, config, files, d.keptKubeconfig())
	wait := d.takeOver(next, cause(reason, d.lastHint.Load(), before, view))
	wanted := d.wanted(view, next.Credentials, reason)
	news, later := d.request.ask(time.Now(), reason, wanted)
	switch news {
	case askedNow:
		d.request.owed = d.request.owed || view.state.Paths.HaveHistory(wanted)
		d.metrics.requests.add(reason)
		d.log.Info("asked for the host's files to be written", "reason", reason, "files", d.request.want)
	case askedDone:
		if view.plan.Fought {
			break // which is a problem, and has a line of its own
		}
		d.log.Info("the host's files are what they should be", "reason", reason)
	}
	d.setProblems(view, next)
	if wait == 0 || later > 0 && later < wait {
		wait = later
	}
	if d.config.Looker.Memory.IsWaiting() && (wait == 0 || wait > missedAgain) {
		wait = missedAgain
	}
	if again || alsoAgain {
		return settle
	}
	return wait
}

// setProblems replaces what an admin should know, and logs what is new of it.
func (d *Daemon) setProblems(view *hostView, s *policy.Policy) {
	now := slices.Concat(s.Problems, view.problems())
	inVain := d.request.problem()
	if inVain != "" && view.plan.Over != "" {
		inVain = "/etc/resolv.conf is written over by " + view.plan.Over // the request was heard, and done
	}
	for _, problem := range []string{inVain, d.unready, d.unkept} {
		if problem != "" {
			now = append(now, problem)
		}
	}
	slices.Sort(now)
	now = slices.Compact(now)
	d.metrics.config.look(errors.Join(view.configErr, view.dnsmasqErr))
	d.logProblems(*d.problems.Swap(&now), now, view.configErr)
	d.busChanged()
}

// suspect has the upstreams probed for loops soon.
func (d *Daemon) suspect() { tell(d.suspects) }

// announce and withdraw keep the ready file: it exists while queries are answered.
func (d *Daemon) announce() {
	d.logReady()
	if len(d.listening()) == 0 {
		d.withdraw()
		return
	}
	d.unready = ""
	err := errors.Join(os.MkdirAll(d.paths.run, 0o755), os.WriteFile(d.paths.ready, nil, 0o644))
	if err != nil {
		d.unready = fmt.Sprintf("the ready file cannot be written: %v", err)
	}
}

func (d *Daemon) withdraw() {
	if err := os.Remove(d.paths.ready); err != nil && !errors.Is(err, os.ErrNotExist) {
		d.log.Warn("ready file", "error", err)
	}
}
