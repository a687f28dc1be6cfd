package control

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/node-dns/node-dns/internal/sys/termtext"
)

const serverHistoryPath = "/v1/servers/history"

// ServerHistory lists the recent changes of the servers that names are forwarded to.
type ServerHistory struct {
	APIVersion string        `json:"apiVersion"`
	Kind       string        `json:"kind"` // ServerHistory
	Now        time.Time     `json:"now"`
	Kept       int           `json:"kept"`    // maximum number of changes kept
	Changes    []RouteChange `json:"changes"` // latest last
}

// RouteChange is one change of the servers in use.
type RouteChange struct {
	Time time.Time `json:"time"`
	By   string    `json:"by"` // event that triggered the update
	// Differences are the changed domains. It is empty if the daemon restarted with the same
	// servers as before.
	Differences []RouteDifference `json:"differences"`
	More        int               `json:"more,omitempty"` // number of differences that are not kept
}

// RouteDifference is a domain whose servers changed.
type RouteDifference struct {
	Domain string       `json:"domain"`
	Before *RouteTarget `json:"before"`           // nil if the domain had no route of its own
	After  *RouteTarget `json:"after"`            // nil if the route was removed
	Source string       `json:"source,omitempty"` // source of After
}

// RouteTarget is where queries of a route go.
type RouteTarget struct {
	Local   bool     `json:"local,omitempty"` // no server: unknown names do not exist
	Servers []string `json:"servers"`
}

// FetchServerHistory fetches the history from the daemon that listens on path.
func FetchServerHistory(ctx context.Context, path string) (ServerHistory, error) {
	return ask[ServerHistory](ctx, path, serverHistoryPath, nil)
}

// WriteText prints each change with its domains.
func (h ServerHistory) WriteText(w io.Writer) error {
	h = termtext.All(h)
	p := newPage(w)
	if len(h.Changes) == h.Kept {
		p.line("the last %d changes:", h.Kept)
	}
	for _, change := range h.Changes {
		p.line("%s  %s", change.Time.Format(time.RFC3339), change.By)
		if len(change.Differences) == 0 {
			p.line("    the same servers as before")
		}
		for _, d := range change.Differences {
			text := "    " + d.Domain + "  " + d.Before.text() + " -> " + d.After.text()
			if d.Source != "" {
				text += "   from " + d.Source
			}
			p.folded(text, 6)
		}
		if change.More > 0 {
			p.line("    and %d more domains", change.More)
		}
	}
	return p.err
}

func (t *RouteTarget) text() string {
	switch {
	case t == nil:
		return "none"
	case t.Local:
		return noSuchNames
	}
	return orNone(strings.Join(t.Servers, " "))
}

// RouteChanged is the time and the cause of the last change of the servers in use.
type RouteChanged struct {
	Time time.Time `json:"time"`
	By   string    `json:"by"`
}

func (c RouteChanged) text() string {
	return fmt.Sprintf("changed %s: %s; node-dns servers --history shows earlier changes", c.Time.Format(time.RFC3339), c.By)
}
