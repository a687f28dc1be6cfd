package daemon

import (
	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/sys/journal"
)

// admin is what the daemon says to who asks at its socket.
func (d *Daemon) admin() control.API {
	return control.API{
		Status:        d.freshStatus,
		ServerHistory: d.serverHistory,

		CacheDump:  d.dumpCache,
		CacheFlush: d.answerFlush,
		CacheStats: d.cacheStats,
		Query:      d.query,
		Search:     d.searchConf,
		Monitor:    d.monitor,
		LogQueries: d.setLogQueries,
		Panicked: func(value any) {
			d.panics.Caught(d.log, "task panicked", journal.TaskPanic, value, "task", "control")
		},
	}
}
