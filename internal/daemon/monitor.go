package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/admin/monitor"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/dnswire"
)

// watchQueries has the server tell of its queries while somebody watches, and of none else.
func (d *Daemon) watchQueries(watched bool) {
	if watched {
		d.server.SetWatch(d.hub.Query)
	} else {
		d.server.SetWatch(nil)
	}
}

// monitor tells of what goes on for as long as the client reads.
func (d *Daemon) monitor(ctx context.Context, asked control.MonitorFilter, send func(control.MonitorEvent) error, flush func() error) error {
	filter, err := monitor.NewFilter(asked.Client, asked.Name, asked.Type, asked.Rcode)
	if err != nil {
		return control.MistakeError{Why: err.Error()}
	}
	w, err := d.hub.Watch(monitor.Config{Filter: filter})
	if errors.Is(err, monitor.ErrTooMany) {
		return fmt.Errorf("%w: end another node-dns monitor first", control.ErrBusy)
	}
	if err != nil {
		return err
	}
	defer w.Close()
	for {
		if len(w.Events) == 0 {
			if err := flush(); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case event := <-w.Events:
			if lost := w.Lost(); lost > 0 {
				err = send(control.MonitorEvent{APIVersion: control.APIVersion, Kind: control.KindLost, Time: time.Now(), Queries: lost})
			}
			if err := errors.Join(err, send(d.shown(event))); err != nil {
				return err
			}
		}
	}
}

func (d *Daemon) watchedStatus() control.Watched {
	mode, _ := d.logsQueries()
	return control.Watched{Monitors: d.hub.Watching(), LogQueries: mode.on}
}

// shown is an event as admins see it.
func (d *Daemon) shown(event *monitor.Event) control.MonitorEvent {
	out := control.MonitorEvent{APIVersion: control.APIVersion, Kind: control.KindChange, Time: event.Time, Change: event.Change, Details: event.Details}
	seen := event.Query
	if seen == nil {
		return out
	}
	out.Kind, out.Client, out.Protocol = control.KindQuery, monitor.Client(seen), string(seen.Proto)
	out.Name, out.Type, out.By, out.Why = monitor.Name(seen), monitor.Type(seen), d.by(seen), seen.Why
	if rcode, sent := monitor.Rcode(seen); sent {
		out.Rcode = rcodeWord(rcode)
	}
	if seen.Outcome == dnsserver.ByUpstream {
		out.Server = seen.Server.String()
	}
	if took := seen.Took.Nanoseconds(); took >= 0 {
		out.Took = &took
	}
	return out
}

// by says who has answered an event's query.
func (d *Daemon) by(seen *dnsserver.Seen) string {
	switch seen.Outcome {
	case dnsserver.ByUpstream:
		return "upstream"
	case dnsserver.ByMemory:
		return "hit"
	case dnsserver.ByStale:
		return "stale"
	case dnsserver.ByNobody, dnsserver.ByFailure:
		return "failed"
	case dnsserver.ByServer:
		return "refused"
	}
	var room [dnswire.MaxName]byte
	if name, ok := dnswire.AppendText(room[:0], monitor.Question(seen)); ok && d.resolver.Covers(name) {
		return "cluster"
	}
	return "local"
}

// rcodeWord is the name of a response code, or its number where it has none.
func rcodeWord(rcode int) string {
	if word, ok := dns.RcodeToString[rcode]; ok {
		return word
	}
	return fmt.Sprintf("RCODE%d", rcode)
}
