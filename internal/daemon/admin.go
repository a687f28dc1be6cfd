package daemon

import (
	"context"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/sys/journal"
)

// admin returns the API of the daemon's control socket.
func (d *Daemon) admin() control.API {
	return control.API{
		Status:        d.freshStatus,
		ServerHistory: d.view.ServerHistory,
		SlowNames:     d.view.SlowNames,

		CacheDump:  d.view.DumpCache,
		CacheFlush: d.view.AnswerFlush,
		CacheStats: d.view.CacheStats,
		Complete:   d.view.Complete,
		Query:      d.view.Query,

		RecentNames: d.view.RecentNames,

		Search:     d.view.SearchConf,
		Monitor:    d.view.Monitor,
		LogQueries: d.view.SetLogQueries,
		Panicked: func(value any) {
			d.panics.Caught(d.log, "task panicked", journal.TaskPanic, value, "task", "control")
		},
	}
}

// freshStatus returns the status after a new look at the host, or the last one if the look takes
// too long.
func (d *Daemon) freshStatus(ctx context.Context) control.Status {
	ctx, cancel := context.WithTimeout(ctx, freshTimeout)
	defer cancel()
	d.fresh.wait(ctx)
	return d.view.Status()
}
