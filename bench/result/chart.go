package result

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Dimensions of the chart in pixels.
const (
	chartWidth  = 860
	panelGap    = 34
	barHeight   = 15
	barStep     = 20
	labelWidth  = 150
	valueWidth  = 180
	headHeight  = 44
	panelHead   = 24
	barsWidth   = chartWidth - labelWidth - valueWidth
	marginBelow = 10
)

// clip is the maximum length of a bar, as a multiple of the panel's median cost. A longer bar is
// cut and marked, because one slow server would make all others look alike.
const clip = 3

// style has colors with enough contrast on white and black, so the chart needs no background.
const style = `text{font:12px system-ui,sans-serif;fill:#6e7781}.head{font-weight:600;font-size:14px}.panel{font-weight:600}` +
	`.peer{fill:#8c959f}.limit{fill:#bf8700}.ours{fill:#2da44e}.end{text-anchor:end}` +
	`@media(prefers-color-scheme:dark){text{fill:#9198a1}.peer{fill:#656c76}}`

// inSummary are the workloads of Summary.
var inSummary = []string{"hits", "misses", "pods", "tcp-short"}

// Summary is Chart with the few workloads that matter most on a node.
func Summary(r Report) string {
	return chart(r, func(w Workload) bool { return slices.Contains(inSummary, w.Name) })
}

// Chart draws the cost of an answer for each peer as an SVG image. Each workload that is not
// TableOnly has a panel with a bar per peer, the cheapest first.
func Chart(r Report) string { return chart(r, func(w Workload) bool { return !w.TableOnly }) }

func chart(r Report, isShown func(Workload) bool) string {
	var body strings.Builder
	y := headHeight
	rows := Summarize(r)
	for _, w := range r.Workloads {
		panel := panelOf(rows, w.Name)
		if len(panel) == 0 || !isShown(w) {
			continue
		}
		fmt.Fprintf(&body, `<text class="panel" x="0" y="%d">%s</text>`+"\n", y, escape(w.Name+": "+w.Title))
		y += panelHead - barHeight
		full := scale(panel)
		for _, row := range panel {
			drawBar(&body, row, y, full)
			y += barStep
		}
		y += panelGap
	}
	height := y - panelGap + marginBelow
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img">`+"\n",
		chartWidth, height, chartWidth, height)
	fmt.Fprintf(&b, "<style>%s</style>\n", style)
	fmt.Fprintf(&b, `<title>What a DNS answer costs</title>`+"\n"+`<text class="head" x="0" y="16">%s</text>`+"\n",
		escape("Microseconds of the server's CPU time for an answer, on "+r.Machine.CPU))
	b.WriteString(body.String())
	b.WriteString("</svg>\n")
	return b.String()
}

// panelOf returns the rows of a workload that have a cost, the cheapest first.
func panelOf(rows []Row, workload string) []Row {
	var panel []Row
	for _, row := range rows {
		if row.Workload == workload && row.Cost > 0 {
			panel = append(panel, row)
		}
	}
	slices.SortStableFunc(panel, func(a, b Row) int { return cmp.Compare(a.Cost, b.Cost) })
	return panel
}

// scale returns the cost of a bar with full width.
func scale(panel []Row) float64 {
	most := panel[len(panel)-1].Cost
	return min(most, clip*panel[len(panel)/2].Cost)
}

func drawBar(b *strings.Builder, row Row, y int, full float64) {
	class := "peer"
	switch {
	case isOurs(row.Peer):
		class = "ours"
	case row.Peer == Limit:
		class = "limit"
	}
	width := max(1, min(row.Cost/full, 1)*barsWidth)
	value := number(row.Cost)
	if row.Cost > full {
		value = "… " + value
	}
	if missed := row.Lost + row.Failed; missed > 0 && row.Sent > 0 {
		value += fmt.Sprintf(" (%.2g %% missed)", 100*float64(missed)/float64(row.Sent))
	}
	fmt.Fprintf(b, `<text class="end" x="%d" y="%d">%s</text>`, labelWidth-8, y+barHeight-3, escape(row.Peer))
	fmt.Fprintf(b, `<rect class="%s" x="%d" y="%d" width="%.1f" height="%d" rx="2"/>`, class, labelWidth, y, width, barHeight)
	fmt.Fprintf(b, `<text x="%.1f" y="%d">%s</text>`+"\n", labelWidth+width+6, y+barHeight-3, escape(value))
}

func escape(text string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(text)
}
