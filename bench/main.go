// Command bench compares node-dns with other nameservers for the same job on two cores of this
// machine: CPU time per query, latency, lost queries and memory. docs/explanation/bench.md explains
// the results.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/node-dns/node-dns/bench/machine"
	"github.com/node-dns/node-dns/bench/result"
	"github.com/node-dns/node-dns/internal/test/faultplan"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, err := parseFlags(os.Args[1:])
	if err == nil {
		err = o.run(ctx)
	}
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run measures, or loads an earlier report, and shows it.
func (o options) run(ctx context.Context) (err error) {
	if o.rows != nil {
		var report result.FaultReport
		if o.show != "" {
			report, err = result.LoadFaults(o.show)
		} else {
			report, err = o.measureFaults(ctx)
		}
		if err != nil {
			return err
		}
		return o.presentFaults(report)
	}
	var report result.Report
	if o.show != "" {
		report, err = result.Load(o.show)
	} else {
		report, err = o.measure(ctx)
	}
	if err != nil {
		return err
	}
	return o.present(report)
}

// options are the command-line options.
type options struct {
	workloads []workload
	peers     []peer
	before    string          // revision of the peer node-dns-before; "" for none
	rows      []faultplan.Row // fault matrix rows to run instead of the benchmark; nil to run the benchmark
	settings  result.Settings
	programs  string // directory
	out       string // directory; "" writes nothing
	show      string // earlier report to show instead of measuring; "" to measure
	profiles  string // directory; "" disables profiles
}

func parseFlags(args []string) (o options, err error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	workloads := flags.String("workloads", "all", "measure these, separated by commas")
	peers := flags.String("peers", "all", "measure these, separated by commas")
	rows := flags.String("faults", "", "play the rows of the fault matrix whose names match this regular expression, and measure nothing else")
	flags.StringVar(&o.before, "before", "", "also measure node-dns of this git revision, as node-dns-before (default: none)")
	flags.IntVar(&o.settings.Rounds, "rounds", 9, "slices of each peer under each workload; fewer than 6 have no spread")
	flags.Float64Var(&o.settings.Seconds, "seconds", 1, "length of a slice")
	flags.IntVar(&o.settings.Tries, "tries", 3, "of a slice that other programs disturbed")
	flags.Uint64Var(&o.settings.Seed, "seed", 1, "of the random order of the slices")
	flags.Float64Var(&o.settings.Foreign, "foreign", 0.2, "cores that other programs may take")
	flags.StringVar(&o.programs, "programs", "bin/bench", "directory of the programs that are built and fetched")
	flags.StringVar(&o.out, "out", "", "directory to write the table, the JSON and the chart into (default: none)")
	flags.StringVar(&o.show, "show", "", "measure nothing, and show this earlier JSON")
	flags.StringVar(&o.profiles, "perf", "", "directory to write profiles of the servers into, by perf(1) (default: none)")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.workloads, err = chooseWorkloads(*workloads); err != nil {
		return o, fmt.Errorf("-workloads: %w", err)
	}
	if o.peers, err = choosePeers(*peers); err != nil {
		return o, fmt.Errorf("-peers: %w", err)
	}
	if o.before != "" {
		o.peers = append(o.peers, oursBefore)
	}
	if *rows != "" {
		if o.rows, err = chooseRows(*rows); err != nil {
			return o, fmt.Errorf("-faults: %w", err)
		}
	}
	if o.settings.Rounds < 1 || o.settings.Tries < 1 || o.settings.Seconds < 1 || o.settings.Seed < 1 || flags.NArg() > 0 {
		return o, fmt.Errorf("-rounds, -tries, -seconds and -seed must be at least 1, and there are no other arguments")
	}
	for _, path := range []*string{&o.programs, &o.profiles} { // programs have a different working directory
		if *path != "" {
			if *path, err = filepath.Abs(*path); err != nil {
				return o, err
			}
		}
	}
	return o, nil
}

// measure gets the programs and measures everything.
func (o options) measure(ctx context.Context) (report result.Report, err error) {
	cpus, err := pin()
	if err != nil {
		return report, err
	}
	missing, err := prepare(ctx, o.programs, o.before, o.peers)
	if err != nil {
		return report, err
	}
	b := &bench{settings: o.settings, cpus: cpus, files: map[string]bool{}, profiles: o.profiles}
	if b.place, err = newPlace(o.programs); err != nil {
		return report, err
	}
	defer b.place.remove()
	defer b.api.close()
	defer b.tls.stop()
	if b.upstream, err = b.place.serve(peer{name: "upstream", program: ofTree("upstream"), argv: peers[0].argv}, values{Addresses: loopback(1)}, nil, "h00000.example.com"); err != nil {
		return report, err
	}
	defer b.upstream.stop()
	report = result.Report{
		Schema: result.Schema, Taken: time.Now().UTC().Round(time.Second), Revision: machine.Revision(ctx), Machine: machine.Read(cpus), Settings: o.settings,
		Missing: missing,
	}
	b.all(ctx, o, &report)
	return report, ctx.Err()
}

// present shows the report and writes it to the output directory, if there is one.
func (o options) present(report result.Report) error {
	if err := result.Write(os.Stdout, report); err != nil || o.out == "" {
		return err
	}
	return result.Save(o.out, report)
}

// presentFaults is present for the fault matrix.
func (o options) presentFaults(report result.FaultReport) error {
	if _, err := os.Stdout.WriteString(result.Markdown(report)); err != nil || o.out == "" {
		return err
	}
	return result.SaveFaults(o.out, report)
}

// all measures every workload.
func (b *bench) all(ctx context.Context, o options, report *result.Report) {
	var present []peer
	for _, p := range o.peers {
		if _, err := b.place.command(p.program); err != nil {
			if !slices.ContainsFunc(report.Missing, func(m result.Missing) bool { return m.Name == p.name }) {
				report.Missing = append(report.Missing, result.Missing{Name: p.name, Why: err.Error()})
			}
			continue
		}
		present = append(present, p)
		report.Peers = append(report.Peers, result.Peer{Name: p.name, Version: b.place.versionOf(p)})
	}
	for _, w := range o.workloads {
		if err := w.possible(); err != nil {
			report.Missing = append(report.Missing, result.Missing{Name: w.Name, Why: err.Error()})
			continue
		}
		report.Workloads = append(report.Workloads, w.Workload)
		taking := slices.DeleteFunc(slices.Clone(present), func(p peer) bool { return !p.runs(w) })
		measure := b.row
		if w.once {
			measure = b.once
		}
		report.Runs = append(report.Runs, measure(ctx, w, taking)...)
	}
}
