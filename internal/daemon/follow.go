package daemon

import (
	"context"
	"time"

	"github.com/node-dns/node-dns/internal/hostdns"
	"github.com/node-dns/node-dns/internal/sys/supervise"
)

// follow looks at the host again after each hint and applies what has changed. No other code
// changes what is served.
func (f *follower) follow(ctx context.Context) error {
	again, tick := time.NewTimer(0), time.NewTicker(lookAgain)
	defer again.Stop()
	defer tick.Stop()
	look := func(reason string) {
		if wait := f.reconcile(ctx, reason); wait > 0 {
			again.Reset(wait)
		}
		f.next = time.Now().Add(f.config.LookInterval)
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case order := <-f.reloads:
			order.done <- f.reloadNow(ctx, order.by)
		case change := <-f.busChanges:
			change.done <- f.takeOverBus(change.state)
		case first := <-f.fresh.asked:
			f.fresh.answer(ctx, first, f.next, func() { look(lookForStatus) })
		case reason := <-f.hints:
			if !supervise.Sleep(ctx, max(settle, time.Until(f.next))) {
				return nil
			}
			f.drainHints()
			look(reason)
		case <-again.C:
			look(lookAgainSoon)
		case <-tick.C:
			look(lookAtTime)
		}
	}
}

// drainHints drops hints that arrived during the settle time. The following look covers them.
func (d *Daemon) drainHints() {
	select {
	case <-d.hints:
	default:
	}
}

// reconcile looks, applies changes, and requests the files that the privileged half must write. It
// returns when to look again without a hint. Zero means not at all.
func (f *follower) reconcile(ctx context.Context, reason string) time.Duration {
	before := f.view.Host.Load()
	seen, err := f.lookAtHost(ctx)
	if err != nil {
		return 0 // stopping
	}
	running := f.policy()
	config, again := f.agreed.next(running.Config, seen)
	files, alsoAgain := f.agreed.nextDnsmasq(running.Dnsmasq, seen)
	next := f.newPolicy(seen, config, files, f.keptKubeconfig())
	wait := f.takeOver(next, cause(reason, f.lastHint.Load(), before, seen))
	wanted := f.wanted(seen, next.Credentials, reason)
	news, later := f.request.Ask(time.Now(), reason, wanted)
	switch news {
	case hostdns.AskedNow:
		f.request.Owed = f.request.Owed || seen.State.Paths.HaveHistory(wanted)
		f.view.Metrics.Requests.Add(reason)
		f.log.Info("requested a write of the host's files", "reason", reason, "files", f.request.Want)
	case hostdns.AskedDone:
		if seen.Plan.RewriteLoop {
			break // reported as a problem, with its own log line
		}
		f.log.Info("the host's files are up to date", "reason", reason)
	}
	f.setProblems(seen, next)
	if wait == 0 || later > 0 && later < wait {
		wait = later
	}
	if f.config.Looker.Memory.IsWaiting() && (wait == 0 || wait > missedAgain) {
		wait = missedAgain
	}
	if again || alsoAgain {
		return settle
	}
	return wait
}
