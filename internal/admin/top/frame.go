package top

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/node-dns/node-dns/internal/admin/control"
)

// Style is the appearance of text.
type Style int

const (
	Plain Style = iota
	Faint
	Title // column titles and names of views
	Chosen
	Bad
)

// Span is a piece of text in one style.
type Span struct {
	Text  string
	Style Style
}

// Line is a line of the screen, at most as wide as the screen. It contains only printable ASCII.
type Line []Span

// Minimum sizes: for several tables side by side, and for the program itself.
const (
	wideFrom, tallFrom = 140, 30
	leastWidth         = 40
	leastHeight        = 8
)

// Frame renders the screen with the given size.
func (m *Model) Frame(width, height int) []Line {
	if width < leastWidth || height < leastHeight {
		return cut([]Line{{{fmt.Sprintf("terminal too small: at least %dx%d needed", leastWidth, leastHeight), Bad}}}, width, height)
	}
	lines := m.head()
	body := height - len(lines) - 1
	switch {
	case m.showsHelp:
		lines = append(lines, help()...)
	case width >= wideFrom && height >= tallFrom:
		lines = append(lines, m.sideBySide(width, body)...)
	default:
		lines = append(lines, m.rowsOf(m.view, width, body, true)...)
	}
	for len(lines) < height-1 {
		lines = append(lines, nil)
	}
	return cut(append(lines[:height-1], m.foot()), width, height)
}

// head returns the lines above the tables.
func (m *Model) head() []Line {
	s := m.status
	first := Line{{"node-dns top", Title}}
	add := func(l *Line, text string, style Style) { *l = append(*l, Span{"  " + text, style}) }
	switch {
	case !m.hasStatus && m.unconnected == "":
		add(&first, "waiting for node-dns", Faint)
	case m.hasStatus:
		if s.Node.Name != "" {
			add(&first, s.Node.Name+" ("+s.Node.IP+")", Plain)
		}
		if s.Ready {
			add(&first, "ready", Plain)
		} else {
			add(&first, "NOT ready", Bad)
		}
		add(&first, m.now.Local().Format(time.TimeOnly), Faint)
	}
	if m.unconnected != "" {
		add(&first, m.unconnected, Bad)
	}
	if m.isPaused {
		add(&first, "PAUSED", Bad)
	}
	queries := Line{{"Queries ", Faint}, {rateCell(m.perSecond(func(s control.Status) uint64 { return s.Queries.UDP + s.Queries.TCP })).text + "/s", Plain}}
	hits, misses := m.perSecond(func(s control.Status) uint64 { return s.Cache.Hits }), m.perSecond(func(s control.Status) uint64 { return s.Cache.Misses })
	add(&queries, "hits "+percent(hits, hits+misses).text, Plain)
	if l := s.LastMinute; l != nil && l.Responses > 0 {
		add(&queries, fmt.Sprintf("p50 %s  p99 %s", bound(l.P50), bound(l.P99)), Plain)
		add(&queries, "NXDOMAIN "+percent(float64(l.NXDomain), float64(l.Responses)).text, Plain)
		add(&queries, fmt.Sprintf("SERVFAIL %d", l.ServFail), styleIf(l.ServFail > 0, Bad))
	}
	up, down := 0, []string{}
	for _, r := range m.serverRows() {
		if r.isBad {
			down = append(down, r.cells[0].text)
		} else {
			up++
		}
	}
	cache := Line{{"Cache   ", Faint}, {fmt.Sprintf("%d/%d entries", s.Cache.Entries, s.Cache.Size), Plain}}
	add(&cache, fmt.Sprintf("servers %d", up+len(down)), Plain)
	if len(down) > 0 {
		add(&cache, "DOWN "+strings.Join(down, " "), Bad)
	}
	if m.lost > 0 {
		add(&cache, fmt.Sprintf("%d queries not shown", m.lost), Faint)
	}
	return []Line{first, queries, cache, m.tabs()}
}

func styleIf(is bool, style Style) Style {
	if is {
		return style
	}
	return Plain
}

// bound formats an upper bound of the histogram. 0 means that the value exceeds all bounds.
func bound(d time.Duration) string {
	if d == 0 {
		return "> 8s"
	}
	return "< " + milliseconds(d).text
}

// tabs returns the names of the views and the filter.
func (m *Model) tabs() Line {
	var line Line
	for i, v := range views {
		style := Faint
		name := fmt.Sprintf(" %d %s ", i+1, v.name)
		if i == m.view {
			style, name = Chosen, fmt.Sprintf("[%d %s]", i+1, v.name)
		}
		line = append(line, Span{name, style})
	}
	switch {
	case m.isTyping:
		line = append(line, Span{"  filter: " + m.typed + "_", Title})
	case m.filter != "":
		line = append(line, Span{"  filter: " + m.filter, Title})
	}
	return line
}

// sideBySide shows the chosen view on the left and others on the right.
func (m *Model) sideBySide(width, height int) []Line {
	const gap = 3
	left := (width - gap) / 2
	right := width - gap - left
	var beside []int
	for _, v := range []int{1, 2, 3, 5, 0} { // clients, answers, servers, failing, names
		if v != m.view && len(beside) < 3 {
			beside = append(beside, v)
		}
	}
	all := make([]Line, height)
	for i, line := range m.rowsOf(m.view, left, height, true) {
		all[i] = line
	}
	at := 0
	for i, v := range beside {
		room := (height - at) / (len(beside) - i)
		for j, line := range append([]Line{{{views[v].name, Title}}}, m.rowsOf(v, right, room-2, false)...) {
			l := fit(all[at+j], left)
			all[at+j] = append(append(l, Span{strings.Repeat(" ", gap), Plain}), line...)
		}
		at += room
	}
	return all
}

// rowsOf renders a table with its titles in the given size. scrolls is set for the table that the
// keys scroll.
func (m *Model) rowsOf(v, width, height int, scrolls bool) []Line {
	rows, columns := m.sorted(v), fitting(views[v].columns, width)
	room := max(0, height-1)
	if scrolls {
		m.offset = min(m.offset, max(0, len(rows)-room))
		rows = rows[m.offset:]
	}
	titles := make([]cell, len(columns))
	for i, c := range columns {
		titles[i] = word(c.title)
		if i == m.order[v].by {
			titles[i] = word(mark(m.order[v].isReversed) + c.title)
		}
	}
	widths := widthsOf(columns, width)
	lines := []Line{{{aligned(titles, columns, widths), Title}}}
	for _, r := range rows[:min(len(rows), room)] {
		lines = append(lines, Line{{aligned(r.cells, columns, widths), styleIf(r.isBad, Bad)}})
	}
	if len(rows) == 0 && room > 0 {
		lines = append(lines, Line{{"nothing yet", Faint}})
	}
	return lines
}

// mark returns the mark of the column by which the table is sorted.
func mark(isReversed bool) string {
	if isReversed {
		return "^"
	}
	return "*"
}

// narrow is the table width below which the last columns are omitted.
const narrow = 95

// fitting returns the columns that fit.
func fitting(columns []column, width int) []column {
	if i := slices.IndexFunc(columns, func(c column) bool { return c.isWide }); i >= 0 && width < narrow {
		return columns[:i]
	}
	return columns
}

// widthsOf distributes the remaining width among the columns without a fixed width.
func widthsOf(columns []column, width int) []int {
	widths, free, flexible := make([]int, len(columns)), width-2*(len(columns)-1), 0
	for i, c := range columns {
		widths[i] = c.width
		free -= c.width
		if c.width == 0 {
			flexible++
		}
	}
	for i, c := range columns {
		if c.width == 0 {
			widths[i] = max(1, free/flexible)
		}
	}
	return widths
}

// aligned formats a row. Text that is too long is shortened in the middle, because both ends of a
// name distinguish it.
func aligned(cells []cell, columns []column, widths []int) string {
	var out strings.Builder
	for i, cell := range cells[:len(columns)] {
		if i > 0 {
			out.WriteString("  ")
		}
		text := ascii(cell.text)
		if n := len(text) - widths[i]; n > 0 {
			const dots = ".."
			keep := max(0, widths[i]-len(dots))
			text = (text[:keep-keep/2] + dots + text[len(text)-keep/2:])[:min(widths[i], keep+len(dots))]
		}
		if columns[i].isRight {
			fmt.Fprintf(&out, "%*s", widths[i], text)
		} else {
			fmt.Fprintf(&out, "%-*s", widths[i], text)
		}
	}
	return out.String()
}

// ascii replaces everything but printable ASCII with "?", so that each character takes one cell.
// The µ of the log's microseconds becomes u.
func ascii(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == 'µ':
			return 'u'
		case r < ' ' || r > '~':
			return '?'
		}
		return r
	}, text)
}

// foot returns the last change, or else the keys.
func (m *Model) foot() Line {
	const recently = 10 * time.Second
	if m.change.Change != "" && m.now.Sub(m.change.Time) < recently {
		return Line{{m.change.Time.Local().Format(time.TimeOnly) + "  " + m.change.Change + " " + m.change.Details, Title}}
	}
	return Line{{"q quit  1-6 view  s sort  r reverse  / filter  p pause  c clear  ? help", Faint}}
}

// help returns the text that replaces the tables.
func help() []Line {
	var lines []Line
	for _, text := range []string{
		"",
		"1-6, Tab       choose a view: names, clients, answers, servers, slow, failing",
		"s, S           sort by the next or the previous column (marked with *)",
		"r              reverse the order",
		"/              show only queries that contain a text in the name,",
		"               address, pod, type, response code or source of the answer",
		"Esc            show all queries again",
		"Up, Down, PgUp, PgDn, Home   scroll",
		"p              pause or continue",
		"c              reset the counts",
		"q, Ctrl-C      quit",
		"",
		"Rates cover about the last ten seconds. Under load they are estimated from",
		"samples. Slow means 100 ms or more. Slow and failing names are shown for five",
		"minutes. The totals above and the servers' numbers count all queries; p50, p99,",
		"NXDOMAIN and SERVFAIL cover the last minute.",
	} {
		lines = append(lines, Line{{text, Plain}})
	}
	return lines
}

// fit pads or cuts a line to exactly that width.
func fit(line Line, width int) (out Line) {
	for _, s := range line {
		text := ascii(s.Text)
		text = text[:min(len(text), width)]
		width -= len(text)
		out = append(out, Span{text, s.Style})
	}
	return append(out, Span{strings.Repeat(" ", width), Plain})
}

// cut makes lines fit a screen.
func cut(lines []Line, width, height int) []Line {
	lines = lines[:min(len(lines), max(0, height))]
	for i := range lines {
		lines[i] = fit(lines[i], max(0, width))
	}
	return lines
}
