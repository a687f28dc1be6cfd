package view

import (
	"cmp"
	"context"
	"log/slog"
	"sync/atomic"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dnsmasqconf"
	"github.com/node-dns/node-dns/internal/policy"
	"github.com/node-dns/node-dns/internal/sys/supervise"
)

// logRate is the maximum number of queries logged per second, each with about three lines. It stays
// below journald's limit for a service, 10,000 lines in 30 seconds (RateLimitBurst= in
// journald.conf(5)), beyond which journald also drops important lines.
const logRate = 100

// queryLog decides whether queries are logged: dnsmasq's log-queries, or a later setting at
// runtime.
type queryLog struct {
	said    atomic.Pointer[logMode] // runtime setting; nil if there is none
	changed chan struct{}           // wakes LogQueries
	number  uint64                  // number of the last logged query; used only by LogQueries
}

// logMode is how queries are logged.
type logMode struct {
	on    bool
	extra bool // log-queries=extra
}

// logModeOf returns the mode in dnsmasq's files.
func logModeOf(files dnsmasqconf.Config) logMode {
	return logMode{files.Has("log-queries"), files.LogExtra}
}

// logsQueries returns how queries are logged, and the source of that setting.
func (v *View) logsQueries() (mode logMode, source string) {
	if said := v.queryLog.said.Load(); said != nil {
		return *said, "node-dns log-queries"
	}
	if mode = logModeOf(v.policy().Dnsmasq); mode.on {
		return mode, "dnsmasq's files"
	}
	return mode, ""
}

// SetLogQueries turns query logging on or off, and returns the state.
func (v *View) SetLogQueries(_ context.Context, asked control.LogQueriesQuestion) (control.LogQueries, error) {
	if asked.On != nil {
		v.queryLog.said.Store(&logMode{*asked.On, *asked.On && asked.Extra})
		supervise.Wake(v.queryLog.changed)
	}
	mode, source := v.logsQueries()
	answer := control.LogQueries{APIVersion: control.APIVersion, Kind: "LogQueries", On: mode.on, Extra: mode.extra, Source: source, Rate: logRate}
	answer.Silent = mode.on && !v.Plain.Enabled(context.Background(), slog.LevelInfo)
	return answer, nil
}

// FollowLogQueries is called after a configuration change. A changed log-queries in dnsmasq's files
// overrides an earlier setting at runtime.
func (v *View) FollowLogQueries(before, after *policy.Policy) {
	if logModeOf(after.Dnsmasq) == logModeOf(before.Dnsmasq) {
		return
	}
	v.queryLog.said.Store(nil)
	supervise.Wake(v.queryLog.changed)
}

// LogQueries writes queries to the log while logging is on. It logs a change of the mode only when
// the change is in effect, so that the next query after "on=true" is in the log.
func (v *View) LogQueries(ctx context.Context) error {
	var mode logMode
	var setBy string     // the source of mode
	var watcher *Watcher // nil while logging is off
	var events <-chan *Event
	defer func() {
		if watcher != nil {
			watcher.Close()
		}
	}()
	for {
		next, source := v.logsQueries()
		if next.on && watcher == nil {
			w, err := v.Hub.Watch(WatchConfig{Rate: logRate})
			if err != nil {
				return err
			}
			watcher, events = w, w.Events
		} else if !next.on && watcher != nil {
			watcher.Close()
			watcher, events = nil, nil
		}
		if next != mode || next.on && source != setBy {
			v.reportLogQueries(next, cmp.Or(source, "dnsmasq's files"))
		}
		mode, setBy = next, source
		select {
		case <-ctx.Done():
			return nil
		case <-v.queryLog.changed:
		case event := <-events:
			if lost := watcher.Lost(); lost > 0 {
				v.Plain.Warn("queries not logged: rate limit exceeded", "count", lost, "limit", logRate)
			}
			v.logQuery(event.Query)
		}
	}
}

func (v *View) reportLogQueries(mode logMode, source string) {
	attrs := []any{"on", mode.on, "source", source}
	if mode.extra {
		attrs = append(attrs, "extra", true)
	}
	v.Log.Info("logging of queries", attrs...)
}

// logQuery writes the lines of one query.
func (v *View) logQuery(seen *dnsserver.Seen) {
	v.queryLog.number++
	lines := logLines
	if mode, _ := v.logsQueries(); mode.extra {
		lines = func(seen *dnsserver.Seen) []string { return extraLines(v.queryLog.number, seen) }
	}
	for i, line := range lines(seen) {
		if pod := v.podAt(seen.Client.Addr()); i == 0 && pod != "" {
			v.Plain.Info(line, "pod", pod)
			continue
		}
		v.Plain.Info(line)
	}
}
