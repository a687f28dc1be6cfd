package daemon

import (
	"bytes"
	"context"
	"time"

	"github.com/node-dns/node-dns/internal/admin/view"
	"github.com/node-dns/node-dns/internal/hostdns"
	"github.com/node-dns/node-dns/internal/sys/supervise"
	"github.com/node-dns/node-dns/internal/upstream"
)

const (
	// settle is how long hints are collected. A renewal causes a dozen events within milliseconds,
	// a carrier flap causes more.
	settle = 50 * time.Millisecond
	// missedAgain is the delay until NetworkManager is queried again after a timeout.
	missedAgain = time.Second
)

// startReason is the reason of the first look that may request writes.
const startReason = "start"

// Reasons of looks without a hint.
const (
	lookForStatus = "status"
	lookAgainSoon = "again"
	lookAtTime    = "time"
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
	config, again := f.agreedConfig.next(running.Config, seen.Config, !seen.IsConfigUsable(running.Config))
	files, alsoAgain := f.agreedDnsmasq.next(running.Dnsmasq, seen.Dnsmasq, seen.DnsmasqErr != nil)
	next := f.newPolicy(seen, config, files, f.keptKubeconfig())
	wait := f.takeOver(next, cause(reason, f.lastHint.Load(), before, seen))
	wanted := f.request.Wanted(time.Now(), seen.Look(f.view.Listening(), next.Credentials, reason == startReason))
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

// hintLasts is the maximum age of a hint that may explain a look without its own hint. The
// hint's own look waits until things have settled.
const hintLasts = 10 * time.Second

// cause returns the cause of a look. If the hook has captured something since the last look, that
// is the cause, because the hint came from one of its files. A look without its own hint has the
// cause of the last one.
func cause(reason string, last *hint, before, now *view.Host) string {
	if before != nil && !bytes.Equal(before.State.Record.Data, now.State.Record.Data) {
		if record, err := upstream.ParseRecord(now.State.Record.Data); err == nil && record.Event != "" {
			return "origin-dns-dispatcher: " + record.Event
		}
	}
	switch reason {
	case lookAtTime, lookAgainSoon, lookForStatus:
		if last != nil && time.Since(last.at) < hintLasts {
			return last.reason
		}
		return "check of the host: " + reason
	}
	return reason
}
