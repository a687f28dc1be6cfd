package view

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/dns/forward"
	"github.com/node-dns/node-dns/internal/sys/atomicfile"
)

const (
	// maxChanges is the number of route changes that are kept.
	maxChanges = 32
	// maxDifferences is the number of domains kept per change; 512 domains may have their own
	// servers.
	maxDifferences = 64
	// maxHistory limits the size of the file, in bytes. If it is exceeded, the oldest changes are
	// dropped.
	maxHistory = 1 << 20
)

// history records changes of the servers in use, even across restarts of the daemon. Its file
// survives a restart but not a stop (RuntimeDirectoryPreserve=restart).
type history struct {
	Path string
	kept atomic.Pointer[keptHistory] // nil if empty; changed only by the goroutine that inspects the host
}

// keptHistory is immutable.
type keptHistory struct {
	Changes []control.RouteChange `json:"changes"`
	Routes  []keptRoute           `json:"routes"` // current routes
}

// keptRoute is where queries for a domain are sent.
type keptRoute struct {
	Domain string              `json:"domain"`
	Target control.RouteTarget `json:"target"`
	Source string              `json:"source"`
}

// Load reads the history of the previous daemon.
func (h *history) Load() error {
	file, _, err := atomicfile.Read(h.Path, maxHistory+1)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil && len(file) > maxHistory {
		err = fmt.Errorf("%d bytes", len(file))
	}
	var kept keptHistory
	if err == nil {
		err = json.Unmarshal(file, &kept)
	}
	if err != nil {
		return fmt.Errorf("reading the server history: %w", err)
	}
	kept.Changes = kept.Changes[max(0, len(kept.Changes)-maxChanges):]
	h.kept.Store(&kept)
	return nil
}

// note records that these routes are now in use and saves the history for the next start.
func (h *history) note(now time.Time, by string, routes []forward.Route) error {
	var before keptHistory
	if known := h.kept.Load(); known != nil {
		before = *known
	}
	after := before.with(now, by, keptRoutes(routes))
	data, err := json.Marshal(after)
	for err == nil && len(data) > maxHistory && len(after.Changes) > 1 {
		after.Changes = after.Changes[(len(after.Changes)+1)/2:]
		data, err = json.Marshal(after)
	}
	h.kept.Store(&after)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(h.Path), 0o755)
	}
	if err == nil {
		_, err = atomicfile.Writer{}.Write(h.Path, append(data, '\n'), 0o644)
	}
	if err != nil {
		return fmt.Errorf("saving the server history: %w", err)
	}
	return nil
}

// with returns the history with one more change.
func (k keptHistory) with(now time.Time, by string, routes []keptRoute) keptHistory {
	change := control.RouteChange{Time: now.Round(0), By: by, Differences: differences(k.Routes, routes)}
	if more := len(change.Differences) - maxDifferences; more > 0 {
		change.Differences, change.More = change.Differences[:maxDifferences], more
	}
	changes := append(slices.Clone(k.Changes), change)
	return keptHistory{Changes: changes[max(0, len(changes)-maxChanges):], Routes: routes}
}

func keptRoutes(routes []forward.Route) []keptRoute {
	kept := []keptRoute{}
	for _, r := range routes {
		kept = append(kept, keptRoute{
			routeWord(r.Domain, r.Plain), control.RouteTarget{Local: r.Local, Servers: control.Texts(r.Servers)}, r.Source,
		})
	}
	return kept
}

// differences returns the domains whose servers changed: first the current ones, in their order.
func differences(before, after []keptRoute) []control.RouteDifference {
	all := []control.RouteDifference{}
	was := map[string]control.RouteTarget{}
	for _, route := range before {
		was[route.Domain] = route.Target
	}
	for _, route := range after {
		old, known := was[route.Domain]
		delete(was, route.Domain)
		d := control.RouteDifference{Domain: route.Domain, After: &route.Target, Source: route.Source}
		if known {
			d.Before = &old
		}
		if !known || old.Local != route.Target.Local || !slices.Equal(old.Servers, route.Target.Servers) {
			all = append(all, d)
		}
	}
	for _, route := range before {
		if old, gone := was[route.Domain]; gone {
			all = append(all, control.RouteDifference{Domain: route.Domain, Before: &old})
		}
	}
	return all
}

// NoteRoutes records the routes that are now in use. If the history cannot be saved, a later daemon
// does not know this change.
func (v *View) NoteRoutes(by string, routes []forward.Route) {
	if err := v.History.note(time.Now(), by, routes); err != nil {
		v.Log.Warn("cannot save the server history for the next start", "error", err)
	}
}

func (v *View) ServerHistory(context.Context) control.ServerHistory {
	h := control.ServerHistory{
		APIVersion: control.APIVersion, Kind: "ServerHistory", Now: time.Now(), Kept: maxChanges, Changes: []control.RouteChange{},
	}
	if kept := v.History.kept.Load(); kept != nil {
		h.Changes = append(h.Changes, kept.Changes...)
	}
	return h
}

// lastChange returns the last change of servers, or nil if there was none since the history began.
func (v *View) lastChange() *control.RouteChanged {
	kept := v.History.kept.Load()
	if kept == nil || len(kept.Changes) < 2 {
		return nil
	}
	for _, change := range slices.Backward(kept.Changes[1:]) {
		if len(change.Differences) > 0 {
			return &control.RouteChanged{Time: change.Time, By: change.By}
		}
	}
	return nil
}
