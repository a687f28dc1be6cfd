package view

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/dnswire"
)

const (
	// sampledHits is the number of hits per second from which each receiver takes samples.
	sampledHits = 100
	// samplesEvery is the interval for sending samples. A Watcher has room for all that arrive in
	// between.
	samplesEvery = 200 * time.Millisecond
	// statusEvery is the interval for sending the status to a client that gets samples.
	statusEvery = time.Second
)

// watchQueries makes the server report its queries only while there are watchers.
func (v *View) watchQueries(of Attention) {
	switch of {
	case Nothing:
		v.server.SetWatch(nil, 0)
	case Samples:
		v.server.SetWatch(v.Hub.Query, sampledHits)
	case All:
		v.server.SetWatch(v.Hub.Query, 0)
	}
}

// Monitor sends events for as long as the client reads.
func (v *View) Monitor(ctx context.Context, asked control.MonitorFilter, send func(control.MonitorEvent) error, flush func() error) error {
	filter, err := NewFilter(asked.Client, asked.Name, asked.Type, asked.Rcode)
	if err != nil {
		return control.MistakeError{Why: err.Error()}
	}
	if filter.pod, err = v.podFilter(asked.Namespace, asked.Pod); err != nil {
		return err
	}
	w, err := v.Hub.Watch(WatchConfig{Filter: filter, Sampled: asked.Sampled})
	if err != nil { // ErrTooMany
		return fmt.Errorf("%w: stop another node-dns monitor first", control.ErrBusy)
	}
	defer w.Close()
	if asked.Sampled {
		return v.samples(ctx, w, send, flush)
	}
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
			if err := errors.Join(sendLost(w, send), send(v.shown(event))); err != nil {
				return err
			}
		}
	}
}

// sendLost sends the number of dropped queries, if there are any.
func sendLost(w *Watcher, send func(control.MonitorEvent) error) error {
	lost := w.Lost()
	if lost == 0 {
		return nil
	}
	return send(control.MonitorEvent{APIVersion: control.APIVersion, Kind: control.KindLost, Time: time.Now(), Queries: lost})
}

// samples sends samples, and the status at intervals. It wakes up a few times per second, however
// many queries there are, because waking up for a query takes longer than answering it.
func (v *View) samples(ctx context.Context, w *Watcher, send func(control.MonitorEvent) error, flush func() error) error {
	ticker := time.NewTicker(samplesEvery)
	defer ticker.Stop()
	for turn := 0; ; turn++ {
		var err error
		for len(w.Events) > 0 && err == nil {
			err = send(v.shown(<-w.Events))
		}
		if turn%int(statusEvery/samplesEvery) == 0 && err == nil {
			err = send(v.statusEvent())
		}
		if err := errors.Join(err, sendLost(w, send), flush()); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// statusEvent returns the status without inspecting the host again, which would take long.
func (v *View) statusEvent() control.MonitorEvent {
	status := v.Status()
	return control.MonitorEvent{APIVersion: control.APIVersion, Kind: control.KindStatus, Time: status.Now, Status: &status}
}

func (v *View) watchedStatus() control.Watched {
	mode, _ := v.logsQueries()
	return control.Watched{Monitors: v.Hub.Watching(), LogQueries: mode.on}
}

// shown converts an event for admins.
func (v *View) shown(event *Event) control.MonitorEvent {
	out := control.MonitorEvent{APIVersion: control.APIVersion, Kind: control.KindChange, Time: event.Time, Change: event.Change, Details: event.Details}
	seen := event.Query
	if seen == nil {
		return out
	}
	out.Kind, out.Client, out.Protocol = control.KindQuery, seenClient(seen), string(seen.Proto)
	out.Pod = v.podAt(seen.Client.Addr())
	out.Name, out.Type, out.By, out.Why = seenName(seen), seenType(seen), v.by(seen), seen.Why
	if rcode, sent := seenRcode(seen); sent {
		out.Rcode = dnswire.RcodeText(rcode)
	}
	if seen.Outcome == dnsserver.ByUpstream {
		out.Server = seen.Server.String()
	}
	if seen.Stands > 1 {
		out.Queries = uint64(seen.Stands)
	}
	if took := seen.Took.Nanoseconds(); took >= 0 {
		out.Took = &took
	}
	return out
}

// by returns the source of the answer to an event's query.
func (v *View) by(seen *dnsserver.Seen) string {
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
	if name, ok := dnswire.AppendText(room[:0], seenQuestion(seen)); ok && v.resolver.Covers(name) {
		return "cluster"
	}
	return "local"
}
