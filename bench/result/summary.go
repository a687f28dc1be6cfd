package result

import (
	"slices"
	"strings"
)

// Row is a peer under a workload: medians over the rounds, and sums of failures. 0 means not
// measured.
type Row struct {
	Workload, Peer   string
	Cost             float64 // CPU-seconds per million answers
	ToLimit, ToBest  Ratio   // cost relative to the echo server and to the best peer in the same round
	PerSecond        float64 // answers
	P50, P99, P999   float64 // microseconds
	Max              float64 // microseconds, over all rounds
	HitsMB, MissesMB float64
	Names            int64
	Sent             int64
	Lost, Failed     int64
	Noisy            int // rounds in which other programs exceeded their limit
	Errors           []string
}

// Summarize returns a row for every peer that ran under a workload, in the report's order.
func Summarize(r Report) []Row {
	var rows []Row
	for _, w := range r.Workloads {
		for _, p := range r.Peers {
			if runs := r.of(w.Name, p.Name); len(runs) > 0 {
				rows = append(rows, r.row(w.Name, p.Name, runs))
			}
		}
	}
	return rows
}

func (r Report) row(workload, peer string, runs []Run) Row {
	row := Row{
		Workload: workload, Peer: peer,
		Cost:      medianOf(runs, Run.Cost),
		ToLimit:   r.ratio(workload, peer, Run.Cost, r.only(Limit)),
		ToBest:    r.ratio(workload, peer, Run.Cost, r.others()),
		PerSecond: medianOf(runs, func(run Run) float64 { return float64(run.Answered) / max(run.Seconds, 1e-9) }),
		P50:       medianOf(runs, func(run Run) float64 { return run.P50 }),
		P99:       medianOf(runs, func(run Run) float64 { return run.P99 }),
		P999:      medianOf(runs, func(run Run) float64 { return run.P999 }),
		HitsMB:    medianOf(runs, func(run Run) float64 { return run.HitsMB }),
		MissesMB:  medianOf(runs, func(run Run) float64 { return run.MissesMB }),
	}
	for _, run := range runs {
		row.Sent, row.Lost, row.Failed = row.Sent+run.Sent, row.Lost+run.Lost, row.Failed+run.Failed
		row.Names, row.Max = max(row.Names, run.Names), max(row.Max, run.Max)
		if run.Foreign > r.Settings.Foreign {
			row.Noisy++
		}
		if run.Error != "" {
			row.Errors = append(row.Errors, run.Error)
		}
	}
	return row
}

// ratio compares a peer's value with the smallest of the rivals' in the same round. It is zero if
// no round has both.
func (r Report) ratio(workload, peer string, value func(Run) float64, rivals []string) Ratio {
	var ratios []float64
	for _, run := range r.of(workload, peer) {
		least := 0.0
		for _, rival := range r.Runs {
			counts := rival.Workload == workload && rival.Round == run.Round && slices.Contains(rivals, rival.Peer)
			if v := value(rival); counts && v > 0 && (len(rivals) == 1 || !rival.spoiled()) && (least == 0 || v < least) {
				least = v
			}
		}
		if v := value(run); v > 0 && least > 0 {
			ratios = append(ratios, v/least)
		}
	}
	return Ratio{median(ratios), spreadOf(ratios)}
}

func (r Report) of(workload, peer string) []Run {
	var runs []Run
	for _, run := range r.Runs {
		if run.Workload == workload && run.Peer == peer {
			runs = append(runs, run)
		}
	}
	return runs
}

func (r Report) only(peer string) []string { return []string{peer} }

// others returns the peers except ours and the limit.
func (r Report) others() []string {
	var names []string
	for _, p := range r.Peers {
		if !isOurs(p.Name) && p.Name != Limit {
			names = append(names, p.Name)
		}
	}
	return names
}

func isOurs(peer string) bool { return peer == Ours || strings.HasPrefix(peer, Ours+"-") }

// medianOf returns the median of a value over the runs that have it.
func medianOf(runs []Run, value func(Run) float64) float64 { return median(measured(runs, value)) }

// measured returns the values of the runs that have one.
func measured(runs []Run, value func(Run) float64) (values []float64) {
	for _, run := range runs {
		if v := value(run); v > 0 {
			values = append(values, v)
		}
	}
	return values
}

// median returns 0 without values. For an even number it is the mean of the two in the middle.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	half := len(values) / 2
	if len(values)%2 == 1 {
		return values[half]
	}
	return (values[half-1] + values[half]) / 2
}
