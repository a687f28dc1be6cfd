package control

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/node-dns/node-dns/internal/sys/termtext"
)

// ServerList shows which servers answer for which names, which settings were overridden, and which
// servers are never queried.
type ServerList struct {
	APIVersion string        `json:"apiVersion"`
	Kind       string        `json:"kind"`
	Now        time.Time     `json:"now"`
	Zones      []Zone        `json:"zones"`  // cluster zones that the built-in resolver answers or that have no server
	Routes     []Route       `json:"routes"` // the longest matching domain wins
	Lost       []Loss        `json:"lost"`
	Refused    []Refused     `json:"refused"`
	Changed    *RouteChanged `json:"changed,omitempty"` // last change of the servers; nil if it is not in the history
	Problems   []string      `json:"problems"`          // empty if there are none
	LeftTo     string        `json:"leftTo,omitempty"`  // as in Status
}

// Zone is a domain that is not forwarded.
type Zone struct {
	Domain string `json:"domain"`
	State  string `json:"state"` // phase of the built-in resolver; empty if there is no resolver, and queries fail
	Source string `json:"source"`
}

// ServerList returns the part of the status that is about servers.
func (s Status) ServerList() ServerList {
	l := ServerList{
		APIVersion: APIVersion, Kind: "ServerList", Now: s.Now, Zones: []Zone{}, Routes: append([]Route{}, s.Routes...),
		Lost: append([]Loss{}, s.Overridden...), Refused: append([]Refused{}, s.Refused...), Changed: s.Changed, Problems: []string{}, LeftTo: s.LeftTo,
	}
	isRouted := func(domain string) bool {
		return slices.ContainsFunc(l.Routes, func(r Route) bool { return r.Domain == domain })
	}
	for _, domain := range s.Cluster.zones() {
		switch {
		case domain == "": // domain not known
		case s.Cluster.Resolver != nil:
			l.Zones = append(l.Zones, Zone{Domain: domain, State: s.Cluster.Resolver.Phase, Source: s.Cluster.Source})
		case !isRouted(domain):
			l.Zones = append(l.Zones, Zone{Domain: domain, Source: s.Cluster.Source})
		}
	}
	l.Problems = append(l.Problems, s.DownServers()...)
	for _, route := range l.Routes {
		if len(route.Servers) == 0 && !route.Local {
			l.Problems = append(l.Problems, "no usable server for "+route.Domain+": its names fail")
		}
	}
	if !isRouted(".") {
		l.Problems = append(l.Problems, "no upstream nameserver is known")
	}
	return l
}

// DownServers returns one problem per server that is down.
func (s Status) DownServers() []string {
	var problems []string
	for _, route := range s.Routes {
		for _, server := range route.Servers {
			if server.State == "down" {
				problems = append(problems, server.Address+" (for "+route.Domain+") is down: "+server.Error)
			}
		}
	}
	return problems
}

// WriteText prints the list as a table.
func (l ServerList) WriteText(w io.Writer) error {
	l = termtext.All(l)
	p := newPage(w)
	p.table(l.table())
	for _, lost := range l.Lost {
		if lost.By != "" {
			p.folded(fmt.Sprintf("lost: %s %s: %s", lost.Domain, lost.words(" "), lost.Why), 4)
		} else {
			p.folded(fmt.Sprintf("lost: %s %s from %s: %s", lost.Domain, lost.words(" "), lost.Source, lost.Why), 4)
		}
	}
	for _, refused := range l.Refused {
		p.folded(fmt.Sprintf("refused: %s from %s: %s", strings.TrimSpace(refused.Domain+" "+refused.Server), refused.Source, refused.Why), 4)
	}
	if l.Changed != nil {
		p.folded(l.Changed.text(), 4)
	}
	for _, problem := range l.Problems {
		p.folded("! "+problem, 4)
	}
	return p.err
}

func (l ServerList) table() [][]string {
	rows := [][]string{{"DOMAIN", "SERVER", "STATE", "OVER", "RTT", "QUERIES", "FAILED", "SOURCE"}}
	add := func(domain, server, state, source string) {
		rows = append(rows, []string{domain, server, state, "-", "-", "-", "-", source})
	}
	isShown := false
	for _, zone := range l.Zones {
		if zone.State == "" {
			add(zone.Domain, "none", "FAILS", zone.Source)
		} else {
			add(zone.Domain, "built-in", zone.State, zone.Source)
		}
	}
	for _, route := range l.Routes {
		if route.Local {
			add(route.Domain, "none", noSuchNames, route.Source)
		} else if len(route.Servers) == 0 {
			add(route.Domain, "none", "FAILS", route.Source)
		}
		for _, server := range route.Servers {
			rows = append(rows, []string{
				route.Domain, server.Address, server.state(), orDash(server.over()), server.rtt(), strconv.FormatUint(server.RouteQueries, 10),
				strconv.FormatUint(server.RouteFailures, 10), route.Source,
			})
			isShown = isShown || server.over() != ""
		}
	}
	if !isShown {
		for i := range rows {
			rows[i] = slices.Delete(rows[i], transportColumn, transportColumn+1)
		}
	}
	return rows
}

// transportColumn is the column that is shown only if a server may be queried over different
// transports.
const transportColumn = 3

func (s Server) state() string {
	switch s.State {
	case "down":
		return "DOWN"
	case "unknown":
		if s.Queries > 0 {
			return "no answer"
		}
		return "not asked"
	}
	return s.State
}

// over describes the transport that is used for the server. It is empty if there is only one.
func (s Server) over() string {
	if s.UDPSize > 0 && (s.Transport == "" || s.Transport == "udp") {
		return fmt.Sprintf("udp, tcp above %d bytes", s.UDPSize)
	}
	return s.Transport
}

func (s Server) rtt() string {
	if s.RTT == 0 {
		return "-"
	}
	return milliseconds(s.RTT)
}

// table prints rows with aligned columns. The last column has no fixed width. If the rows are too
// wide for the sheet, the last column moves to a line of its own. If that is not enough, all
// columns but the first two do.
func (p *page) table(rows [][]string) {
	last := len(rows[0]) - 1
	widths, width := make([]int, last+1), 0
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, w := range widths[:last] {
		width += w + len("  ")
	}
	hasRoom := func(width int) bool { return p.columns == 0 || width <= p.columns }
	for n, row := range rows {
		var line strings.Builder
		for i, cell := range row[:last] {
			fmt.Fprintf(&line, "%-*s  ", widths[i], cell)
		}
		switch {
		case hasRoom(width + widths[last]):
			p.line("%s", line.String()+row[last])
		case hasRoom(width - len("  ")):
			p.line("%s", strings.TrimRight(line.String(), " "))
			p.below(rows[0][last:], row[last:], n)
		case n > 0:
			p.folded(row[0]+"  "+row[1], 4)
			p.below(rows[0][2:last], row[2:last], n)
			p.below(rows[0][last:], row[last:], n)
		}
	}
}

// below prints the cells of row n on a line of their own, each with its column name. It skips the
// header row and empty cells.
func (p *page) below(names, cells []string, n int) {
	var words []string
	for i, cell := range cells {
		if cell != "-" && n > 0 {
			words = append(words, strings.ToLower(names[i])+" "+cell)
		}
	}
	if len(words) > 0 {
		p.folded("    "+strings.Join(words, "  "), 6)
	}
}

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
	return orNone(t.Servers, " ")
}

// RouteChanged is the time and the cause of the last change of the servers in use.
type RouteChanged struct {
	Time time.Time `json:"time"`
	By   string    `json:"by"`
}

func (c RouteChanged) text() string {
	return fmt.Sprintf("changed %s: %s; node-dns servers --history shows earlier changes", c.Time.Format(time.RFC3339), c.By)
}
