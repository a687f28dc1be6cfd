package daemon

import (
	"context"

	"github.com/node-dns/node-dns/internal/admin/view"
	"github.com/node-dns/node-dns/internal/resolve"
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
