package daemon

import (
	"context"
	"log/slog"
	"sync/atomic"

	"github.com/node-dns/node-dns/internal/control"
	"github.com/node-dns/node-dns/internal/monitor"
)

// logRate is how many queries are logged in a second, of three lines or so each: below what journald takes of a service, 10,000 lines in
// 30 seconds (RateLimitBurst= of journald.conf(5)), beyond which it drops what is important too.
const logRate = 100

// queryLog says whether queries are written to the log: dnsmasq's log-queries, or what was said at runtime since.
type queryLog struct {
	said    atomic.Pointer[bool] // at runtime; nil: nothing
	changed chan struct{}        // wakes logQueries
}

// logsQueries reports whether queries are logged, and who said so.
func (d *Daemon) logsQueries() (on bool, source string) {
	if said := d.queryLog.said.Load(); said != nil {
		return *said, "node-dns log-queries"
	}
	if d.serving.Load().dnsmasq.Has("log-queries") {
		return true, "dnsmasq's files"
	}
	return false, ""
}

// setLogQueries turns the logging of queries on or off, or only says how it is.
func (d *Daemon) setLogQueries(_ context.Context, asked control.LogQueriesQuestion) (control.LogQueries, error) {
	before, _ := d.logsQueries()
	if asked.On != nil {
		d.queryLog.said.Store(asked.On)
	}
	on, source := d.logsQueries()
	if on != before {
		d.sayLogQueries(on, source)
	}
	answer := control.LogQueries{APIVersion: control.APIVersion, Kind: "LogQueries", On: on, Source: source, Rate: logRate}
	answer.Silent = on && !d.plain.Enabled(context.Background(), slog.LevelInfo)
	return answer, nil
}

// followLogQueries is called when another configuration is served. A word in dnsmasq's files that is new counts more than what was said
// at runtime before.
func (d *Daemon) followLogQueries(before, after *serving) {
	had, has := before.dnsmasq.Has("log-queries"), after.dnsmasq.Has("log-queries")
	if had == has {
		return
	}
	d.queryLog.said.Store(nil)
	d.sayLogQueries(has, "dnsmasq's files")
}

func (d *Daemon) sayLogQueries(on bool, source string) {
	d.log.Info("logging of queries", "on", on, "source", source)
	select {
	case d.queryLog.changed <- struct{}{}:
	default:
	}
}

// logQueries writes the queries to the log while that is on.
func (d *Daemon) logQueries(ctx context.Context) error {
	for ctx.Err() == nil {
		if on, _ := d.logsQueries(); on {
			if err := d.logWhileOn(ctx); err != nil {
				return err
			}
			continue
		}
		select {
		case <-ctx.Done():
		case <-d.queryLog.changed:
		}
	}
	return nil
}

func (d *Daemon) logWhileOn(ctx context.Context) error {
	w, err := d.hub.Watch(monitor.Config{Rate: logRate})
	if err != nil {
		return err
	}
	defer w.Close()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-d.queryLog.changed:
			if on, _ := d.logsQueries(); !on {
				return nil
			}
		case event := <-w.Events:
			if lost := w.Lost(); lost > 0 {
				d.plain.Warn("queries not logged: more in a second than the log is given", "count", lost, "limit", logRate)
			}
			for _, line := range monitor.LogLines(event.Query) {
				d.plain.Info(line)
			}
		}
	}
}
