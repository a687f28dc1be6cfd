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

// ServerHistory says when which servers were asked for which names.
type ServerHistory struct {
	APIVersion string        `json:"apiVersion"`
	Kind       string        `json:"kind"` // ServerHistory
	Now        time.Time     `json:"now"`
	Kept       int           `json:"kept"`    // how many changes are kept at most
	Changes    []RouteChange `json:"changes"` // the latest last
}

// RouteChange is one time that other servers came to be asked.
type RouteChange struct {
	Time time.Time `json:"time"`
	By   string    `json:"by"` // what made us look
	// Differences are the domains that it changed something for; none: a start with what was asked before it.
	Differences []RouteDifference `json:"differences"`
	More        int               `json:"more,omitempty"` // of them, which are not kept
}

// RouteDifference is a domain whose names are asked of others.
type RouteDifference struct {
	Domain string       `json:"domain"`
	Before *RouteTarget `json:"before"`           // nil: it was no route of its own
	After  *RouteTarget `json:"after"`            // nil: it is none
	Source string       `json:"source,omitempty"` // of After
}

// RouteTarget is who is asked.
type RouteTarget struct {
	Local   bool     `json:"local,omitempty"` // nobody: what is not known does not exist
	Servers []string `json:"servers"`
}

// FetchServerHistory asks the daemon that listens on path.
func FetchServerHistory(ctx context.Context, path string) (ServerHistory, error) {
	return ask[ServerHistory](ctx, path, serverHistoryPath, nil)
}

// WriteText prints each change with the domains that it is about.
func (h ServerHistory) WriteText(w io.Writer) error {
	h = termtext.All(h)
	p := &page{w: w}
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
			p.line("%s", text)
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

// RouteChanged is when other servers came to be asked last, and what that was about.
type RouteChanged struct {
	Time time.Time `json:"time"`
	By   string    `json:"by"`
}

func (c RouteChanged) text() string {
	return fmt.Sprintf("changed %s: %s; what was before: node-dns servers --history", c.Time.Format(time.RFC3339), c.By)
}
