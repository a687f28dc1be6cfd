package result

import (
	"cmp"
	"fmt"
	"math"
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
	axisHeight  = 16
	barsWidth   = chartWidth - labelWidth - valueWidth
	marginBelow = 10

	// breakAt is the place of the gap in a cut bar, and breakWidth is its width.
	breakAt    = barsWidth - 16
	breakWidth = 5
)

// clip is the end of a panel's scale, as a multiple of the panel's median cost. A longer bar is cut
// and has a gap, because one slow server would make all others look alike.
const clip = 5

// leastFailed is the share of lost and failed queries from which a bar shows it, in percent. The
// table has smaller ones.
const leastFailed = 0.01

// style has colors with enough contrast on white and black, so the chart needs no background.
const style = `text{font:12px system-ui,sans-serif;fill:#6e7781}.head{font-weight:600;font-size:14px}.panel{font-weight:600}` +
	`.peer{fill:#8c959f}.limit{fill:#bf8700}.ours{fill:#2da44e}.end{text-anchor:end}` +
	`.tick{text-anchor:middle;font-size:11px}line{stroke:#8c959f;stroke-opacity:.35}` +
	`@media(prefers-color-scheme:dark){text{fill:#9198a1}.peer{fill:#656c76}}`

// inSummary are the workloads of Summary.
var inSummary = []string{"hits", "misses", "pods"}

// Summary is Chart with the few workloads that matter most on a node, and without our variants.
func Summary(r Report) string {
	return chart(r, func(row Row) bool {
		return slices.Contains(inSummary, row.Workload) && (row.Peer == Ours || !isOurs(row.Peer))
	})
}

// Chart draws the cost of an answer for each peer as an SVG image. Each workload that is not
// TableOnly has a panel with a bar per peer, the cheapest first, and a linear scale from 0.
func Chart(r Report) string {
	tableOnly := map[string]bool{}
	for _, w := range r.Workloads {
		tableOnly[w.Name] = w.TableOnly
	}
	return chart(r, func(row Row) bool { return !tableOnly[row.Workload] })
}

func chart(r Report, isShown func(Row) bool) string {
	var body strings.Builder
	y := headHeight
	rows := slices.DeleteFunc(Summarize(r), func(row Row) bool { return !isShown(row) })
	for _, w := range r.Workloads {
		panel := panelOf(rows, w.Name)
		if len(panel) == 0 {
			continue
		}
		fmt.Fprintf(&body, `<text class="panel" x="0" y="%d">%s</text>`+"\n", y, escape(w.Name+": "+w.Title))
		y += panelHead - barHeight
		full := scale(panel)
		drawAxis(&body, y, y+len(panel)*barStep, full)
		for _, row := range panel {
			drawBar(&body, row, y, full)
			y += barStep
		}
		y += axisHeight + panelGap
	}
	height := y - panelGap + marginBelow
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img">`+"\n",
		chartWidth, height, chartWidth, height)
	fmt.Fprintf(&b, "<style>%s</style>\n", style)
	fmt.Fprintf(&b, `<title>What a DNS answer costs</title>`+"\n"+`<text class="head" x="0" y="16">%s</text>`+"\n",
		escape("CPU time of the server for an answer, in microseconds (µs), on "+r.Machine.CPU))
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

// drawAxis draws a line from top to bottom for each tick of a panel, and its value below.
func drawAxis(b *strings.Builder, top, bottom int, full float64) {
	step := tickStep(full)
	for tick := 0.0; tick <= full; tick += step {
		x := labelWidth + tick/full*barsWidth
		fmt.Fprintf(b, `<line x1="%.1f" y1="%d" x2="%.1f" y2="%d"/>`, x, top, x, bottom)
		fmt.Fprintf(b, `<text class="tick" x="%.1f" y="%d">%g µs</text>`+"\n", x, bottom+axisHeight-4, tick)
	}
}

// tickStep returns the distance of ticks on a scale: 1, 2 or 5 times a power of ten, so that there
// are at most seven.
func tickStep(full float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(full/6)))
	for _, factor := range []float64{1, 2, 5} {
		if full/6 <= factor*power {
			return factor * power
		}
	}
	return 10 * power
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
	if failed := 100 * float64(row.Lost+row.Failed) / float64(max(row.Sent, 1)); failed >= leastFailed {
		value += fmt.Sprintf(" (%.2g %% failed)", failed)
	}
	fmt.Fprintf(b, `<text class="end" x="%d" y="%d">%s</text>`, labelWidth-8, y+barHeight-3, escape(row.Peer))
	bar := func(from, width float64) {
		fmt.Fprintf(b, `<rect class="%s" x="%g" y="%d" width="%.1f" height="%d" rx="2"/>`, class, labelWidth+from, y, width, barHeight)
	}
	if row.Cost > full {
		bar(0, breakAt)
		bar(breakAt+breakWidth, barsWidth-breakAt-breakWidth)
	} else {
		bar(0, width)
	}
	fmt.Fprintf(b, `<text x="%.1f" y="%d">%s</text>`+"\n", labelWidth+width+6, y+barHeight-3, escape(value))
}

func escape(text string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(text)
}
