package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/node-dns/node-dns/internal/intercept"
	"github.com/node-dns/node-dns/internal/policy"
	"github.com/node-dns/node-dns/internal/sys/atomicfile"
	"github.com/node-dns/node-dns/internal/sys/supervise"
)

const (
	// releaseTimeout bounds the wait until the helper has removed its rules at a stop. It looks ten
	// times a second, and systemd kills it if it hangs for a second.
	releaseTimeout = 2 * time.Second
	releasePoll    = 10 * time.Millisecond
	// redirectedDrain is how long a stopping daemon continues to answer with `intercept: cilium`.
	// Cilium continues to send queries to a pod that is being deleted (cilium/cilium issue 43454),
	// until the readiness probe has failed: with the chart, two probes with a pause of 2 s.
	redirectedDrain = 10 * time.Second
)

// requestInterception tells the helper which addresses to intercept: none before the cluster's
// names can be answered, because pods reach the cluster's DNS pods until then.
func (f *follower) requestInterception(p *policy.Policy) {
	f.unasked = ""
	if len(p.Intercept) == 0 || len(f.view.Listening()) == 0 || f.resolver.Known() == nil {
		f.withdrawInterception()
		return
	}
	want := p.InterceptRequest().Format() // Write leaves a file with this content as it is
	if _, err := new(atomicfile.Writer).Write(f.paths.intercept, want, 0o644); err != nil {
		f.unasked = fmt.Sprintf("cannot request the interception of pods' queries: %v", err)
	}
}

func (d *Daemon) withdrawInterception() {
	if err := os.Remove(d.paths.intercept); err != nil && !errors.Is(err, os.ErrNotExist) {
		d.log.Warn("cannot withdraw the request for interception", "error", err)
	}
}

// releaseInterception withdraws the request and waits until no query comes here because of it. Then
// the cluster's DNS pods answer, and this process may stop.
func (d *Daemon) releaseInterception(ctx context.Context) {
	d.withdrawInterception()
	d.awaitReleased(ctx, func(intercept.Address) bool { return true })
}

// dropInterception requests the interception that next wants, if addresses of old are about to
// close, and waits until no query comes to them.
func (f *follower) dropInterception(old, next *policy.Policy) {
	dropped := intercept.Change{Old: old.InterceptRequest(), Next: next.InterceptRequest()}
	if slices.ContainsFunc(old.Intercept, dropped.Closes) {
		f.requestInterception(next)
		f.awaitReleased(context.Background(), dropped.Hinders)
	}
}

// awaitReleased waits until the helper intercepts none of these addresses.
func (d *Daemon) awaitReleased(ctx context.Context, is func(a intercept.Address) bool) {
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	for {
		state, err := intercept.ReadState(d.paths.intercepted)
		if err == nil && !state.Intercepts(is) || !supervise.Sleep(ctx, releasePoll) {
			return
		}
	}
}

// answerRedirected continues to answer until Cilium has learned that this pod is not ready. /ready
// does not answer any more.
func (d *Daemon) answerRedirected(ctx context.Context) {
	if p := d.policy(); p != nil && p.Config.Intercept.Cilium {
		d.log.Info("answering until Cilium sends queries elsewhere")
		d.config.AwaitRedirected(ctx)
	}
}
