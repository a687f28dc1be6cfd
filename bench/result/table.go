package result

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// absent is the cell for a value that was not measured.
const absent = "-"

// Write writes the report as aligned text: the machine, the cost of every peer under every
// workload, the details, and the targets.
func Write(w io.Writer, r Report) error {
	rows := Summarize(r)
	var b strings.Builder
	writeHead(&b, r)
	writeCosts(&b, r, rows)
	writeDetails(&b, rows)
	writeTargets(&b, r)
	_, err := io.WriteString(w, b.String())
	return err
}

func writeHead(b *strings.Builder, r Report) {
	fmt.Fprintf(b, "%s, %s\n", r.Taken.UTC().Format("2006-01-02 15:04 MST"), r.Revision)
	fmt.Fprintf(b, "%s, %d of %d cores used, %.1f GB, Linux %s, %s\n",
		r.Machine.CPU, len(r.Machine.Used), r.Machine.Cores, float64(r.Machine.Memory)/1e9, r.Machine.Kernel, r.Machine.System)
	fmt.Fprintf(b, "%s; tries where other programs took more than %g cores: at most %d\n", r.Settings, r.Settings.Foreign, r.Settings.Tries)
	for _, m := range r.Missing {
		fmt.Fprintf(b, "not measured: %s: %s\n", m.Name, m.Why)
	}
}

// writeCosts writes the overview: one line per workload, one column per peer.
func writeCosts(b *strings.Builder, r Report, rows []Row) {
	fmt.Fprintf(b, "\nCPU-seconds of the server per million answers, and as a multiple of the C echo's "+
		"(* disturbed by other programs; %s within the spread of the slices)\n\n", within)
	cells := map[[2]string]string{}
	for _, row := range rows {
		if row.Cost > 0 {
			cells[[2]string{row.Workload, row.Peer}] = fmt.Sprintf("%s%s %s", number(row.Cost), mark(row), row.ToLimit)
		}
	}
	t := newTable(b)
	header := []string{"workload"}
	for _, p := range r.Peers {
		header = append(header, p.Name)
	}
	line(t, header...)
	for _, w := range r.Workloads {
		cell := []string{w.Name}
		for _, p := range r.Peers {
			cell = append(cell, or(cells[[2]string{w.Name, p.Name}]))
		}
		line(t, cell...)
	}
	t.Flush()
	fmt.Fprintln(b)
	for _, w := range r.Workloads {
		fmt.Fprintf(b, "%s: %s\n", w.Name, w.Title)
	}
	for _, p := range r.Peers {
		fmt.Fprintf(b, "%s: %s\n", p.Name, p.Version)
	}
}

func writeDetails(b *strings.Builder, rows []Row) {
	fmt.Fprintln(b)
	t := newTable(b)
	line(t, "workload", "peer", "CPU-s/M", "× echo", "spread", "× best", "spread", "answers/s", "p50 µs", "p99 µs", "p99.9 µs", "max µs", "lost", "failed", "MB hits", "MB misses", "names", "")
	for _, row := range rows {
		line(t, row.Workload, row.Peer, number(row.Cost), row.ToLimit.String(), row.ToLimit.Spread.String(), row.ToBest.String(),
			row.ToBest.Spread.String(), whole(row.PerSecond), whole(row.P50), whole(row.P99), whole(row.P999), whole(row.Max), share(row.Lost, row.Sent), share(row.Failed, row.Sent), whole(row.HitsMB), whole(row.MissesMB),
			whole(float64(row.Names)), remark(row))
	}
	t.Flush()
}

func writeTargets(b *strings.Builder, r Report) {
	fmt.Fprintln(b)
	t := newTable(b)
	line(t, "workload", "target of "+Ours, "at most", "measured", "spread", "met")
	for _, o := range Targets(r) {
		if !slices.ContainsFunc(r.Workloads, func(w Workload) bool { return w.Name == o.Workload }) {
			continue
		}
		got := absent
		if o.Measured {
			got = figure(o.Got)
		}
		line(t, o.Workload, o.What, figure(o.AtMost), got, o.Spread.String(), o.String())
	}
	t.Flush()
}

func newTable(b *strings.Builder) *tabwriter.Writer { return tabwriter.NewWriter(b, 0, 0, 2, ' ', 0) }

func line(t *tabwriter.Writer, cells ...string) {
	fmt.Fprintln(t, strings.TrimRight(strings.Join(cells, "\t"), "\t"))
}

// number formats a value with three significant digits.
func number(v float64) string {
	switch {
	case v == 0:
		return absent
	case v < 10:
		return fmt.Sprintf("%.2f", v)
	case v < 100:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.0f", v)
	}
}

// figure formats a value with three digits and no exponent.
func figure(v float64) string {
	if v < 1000 {
		return fmt.Sprintf("%.3g", v)
	}
	return fmt.Sprintf("%.0f", v)
}

func times(v float64) string {
	if v == 0 {
		return absent
	}
	return number(v) + "×"
}

func whole(v float64) string {
	if v == 0 {
		return absent
	}
	return fmt.Sprintf("%.0f", v)
}

// share formats a count, with its percentage of all if that is visible.
func share(n, all int64) string {
	switch {
	case n == 0 || all == 0:
		return fmt.Sprint(n)
	default:
		return fmt.Sprintf("%d (%.2g %%)", n, 100*float64(n)/float64(all))
	}
}

func mark(row Row) string {
	if row.Noisy > 0 {
		return "*"
	}
	return ""
}

func remark(row Row) string {
	var remarks []string
	if row.Noisy > 0 {
		remarks = append(remarks, fmt.Sprintf("disturbed %d×", row.Noisy))
	}
	return strings.Join(append(remarks, row.Errors...), "; ")
}

func or(cell string) string {
	if cell == "" {
		return absent
	}
	return cell
}
