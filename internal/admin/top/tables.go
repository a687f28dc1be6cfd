package top

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/node-dns/node-dns/internal/admin/control"
)

// column has a title and a width. Width 0 means the remaining space.
type column struct {
	title   string
	width   int
	isRight bool // whether the text is a number
	isWide  bool // whether to omit it from a narrow table
}

// row is one line of a table.
type row struct {
	cells []cell
	isBad bool
}

// cell is a string. A number sorts by its value, largest first, and a word by its text.
type cell struct {
	text     string
	isNumber bool
	number   float64
}

func word(text string) cell { return cell{text: text} }

func amount(text string, n float64) cell { return cell{text, true, n} }

// compare orders two cells of a column.
func (c cell) compare(other cell) int {
	if c.isNumber {
		return cmp.Compare(other.number, c.number)
	}
	return c.compareText(other)
}

func (c cell) compareText(other cell) int { return strings.Compare(c.text, other.text) }

// view is a table that the user may choose.
type view struct {
	name    string
	columns []column
	rows    func(*Model) []row
	sortBy  int // initial sort column
}

var (
	perSecond = column{title: "Q/S", width: 7, isRight: true}
	share     = column{title: "SHARE", width: 6, isRight: true}
	nxdomain  = column{title: "NXDOM", width: 6, isRight: true}
	fails     = column{title: "FAIL", width: 6, isRight: true}
	average   = column{title: "AVG", width: 8, isRight: true}
	ago       = column{title: "AGO", width: 5, isRight: true}
)

// views are in the order of keys 1 to 6.
var views = []view{
	{"Names", []column{{title: "NAME"}, perSecond, share, {title: "HIT", width: 6, isRight: true}, nxdomain, fails, average}, (*Model).nameRows, 1},
	{"Clients", []column{{title: "CLIENT", width: 15}, {title: "POD"}, perSecond, share, nxdomain, fails, average}, (*Model).clientRows, 2},
	{"Answers", []column{{title: "BY"}, perSecond, share, nxdomain, fails, average}, (*Model).answerRows, 1},
	{"Servers", []column{{title: "SERVER", width: 21}, {title: "FOR"}, {title: "STATE", width: 7}, {title: "RTT", width: 8, isRight: true}, perSecond, {title: "FAIL/S", width: 7, isRight: true}}, (*Model).serverRows, 4},
	{"Slow", []column{{title: "NAME"}, {title: "TYPE", width: 5}, {title: "WORST", width: 8, isRight: true}, {title: "LAST", width: 8, isRight: true}, {title: "BY", width: 15}, ago}, (*Model).slowRows, 2},
	{"Failing", []column{{title: "NAME"}, {title: "TYPE", width: 5}, {title: "RCODE", width: 8}, {title: "COUNT", width: 6, isRight: true}, ago, {title: "CLIENT", width: 15}, {title: "WHY", isWide: true}}, (*Model).failingRows, 3},
}

// sorted returns the rows of a view.
func (m *Model) sorted(v int) []row {
	rows, order := views[v].rows(m), m.order[v]
	slices.SortFunc(rows, func(a, b row) int {
		first := a.cells[order.by].compare(b.cells[order.by])
		if order.isReversed {
			first = -first
		}
		return cmp.Or(first, slices.CompareFunc(a.cells, b.cells, cell.compareText))
	})
	return rows
}

// total returns the weight of all counted queries.
func (m *Model) total() (sum float64) {
	for _, e := range m.answers.Entries {
		sum += e.Weight
	}
	return sum
}

func (m *Model) nameRows() (rows []row) {
	total := m.total()
	for name, e := range m.names.Entries {
		d := e.Details
		rows = append(rows, row{append([]cell{word(name), m.rateCell(e.Weight), percent(e.Weight, total), percent(d.hits, e.Weight)}, d.cells(e.Weight)...), d.failed > e.Weight/2})
	}
	return rows
}

func (m *Model) clientRows() (rows []row) {
	total := m.total()
	for client, e := range m.clients.Entries {
		d := e.Details
		if d.pod == "" && client == m.status.Node.IP {
			d.pod = "(this host)"
		}
		rows = append(rows, row{append([]cell{word(client), word(orDash(d.pod)), m.rateCell(e.Weight), percent(e.Weight, total)}, d.cells(e.Weight)...), d.failed > e.Weight/2})
	}
	return rows
}

func (m *Model) answerRows() (rows []row) {
	total := m.total()
	for by, e := range m.answers.Entries {
		rows = append(rows, row{append([]cell{word(by), m.rateCell(e.Weight), percent(e.Weight, total)}, e.Details.cells(e.Weight)...), by == "failed" || by == "refused"})
	}
	return rows
}

// cells returns the cells for NXDOMAIN, failures and the average time.
func (t tally) cells(weight float64) []cell {
	mean := amount("-", 0)
	if t.timed > 0 {
		mean = milliseconds(time.Duration(t.took / t.timed * float64(time.Second)))
	}
	return []cell{percent(t.absent, weight), percent(t.failed, weight), mean}
}

// serverRows returns the upstream nameservers of the status without duplicates, each with all its
// domains.
func (m *Model) serverRows() (rows []row) {
	type place struct {
		server  control.Server
		domains []string
	}
	var order []string
	places, earlier := map[string]*place{}, map[string]control.Server{}
	before, seconds := m.before()
	for _, route := range before.Routes {
		for _, s := range route.Servers {
			earlier[s.Address] = s
		}
	}
	for _, route := range m.status.Routes {
		for _, s := range route.Servers {
			if places[s.Address] == nil {
				places[s.Address] = &place{server: s}
				order = append(order, s.Address)
			}
			places[s.Address].domains = append(places[s.Address].domains, route.Domain)
		}
	}
	grown := func(now, before uint64) cell {
		if seconds <= 0 || now < before {
			return amount("0", 0)
		}
		return rateCell(float64(now-before) / seconds)
	}
	for _, address := range order {
		s, e := places[address].server, earlier[address]
		rtt := amount("-", 0)
		if s.RTT > 0 {
			rtt = milliseconds(s.RTT)
		}
		rows = append(rows, row{[]cell{
			word(address), word(strings.Join(places[address].domains, " ")), word(s.State), rtt, grown(s.Queries, e.Queries), grown(s.Failures, e.Failures),
		}, s.State == "down"})
	}
	return rows
}

func (m *Model) slowRows() (rows []row) {
	for name, e := range m.slow.Entries {
		t := e.Details
		cells := []cell{word(name), word(t.qtype), milliseconds(t.worst), milliseconds(t.took), word(t.by), m.ago(t.at)}
		rows = append(rows, row{cells, isFailed(control.MonitorEvent{Rcode: t.rcode})})
	}
	return rows
}

func (m *Model) failingRows() (rows []row) {
	for name, e := range m.failing.Entries {
		t := e.Details
		cells := []cell{word(name), word(t.qtype), word(t.rcode), amount(fmt.Sprintf("%.0f", e.Weight), e.Weight), m.ago(t.at), word(t.client), word(orDash(t.why))}
		rows = append(rows, row{cells, true})
	}
	return rows
}

// ago returns the time since at, before the last event. The latest sorts first.
func (m *Model) ago(at time.Time) cell {
	d := max(0, m.now.Sub(at))
	if d >= time.Minute {
		return amount(fmt.Sprintf("%dm", d/time.Minute), -d.Seconds())
	}
	return amount(fmt.Sprintf("%ds", d/time.Second), -d.Seconds())
}

func (m *Model) rateCell(weight float64) cell { return rateCell(m.rate(weight)) }

func rateCell(n float64) cell {
	format := "%.0f"
	if n < 99.5 {
		format = "%.1f"
	}
	return amount(fmt.Sprintf(format, n), n)
}

func percent(part, whole float64) cell {
	if whole <= 0 {
		return amount("-", 0)
	}
	p := min(100, 100*part/whole)
	return amount(fmt.Sprintf("%.0f %%", p), p)
}

func milliseconds(d time.Duration) cell {
	ms := float64(d) / float64(time.Millisecond)
	if ms < 0.005 && d > 0 {
		return amount("<0.01ms", ms)
	}
	if ms < 9.995 {
		return amount(fmt.Sprintf("%.2fms", ms), ms)
	}
	return amount(fmt.Sprintf("%.0fms", ms), ms)
}
