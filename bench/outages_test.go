package main

import (
	"fmt"
	"math"
	"testing"

	"github.com/node-dns/node-dns/bench/result"
	"github.com/node-dns/node-dns/internal/test/golden"
)

const outageResults = "results/intercept.json"

// TestOutageResults: the text of the last measurement of interception matches its JSON.
func TestOutageResults(t *testing.T) {
	report, err := result.LoadOutages(outageResults)
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "results/intercept.txt", result.Outages(report))
}

// TestInterceptPage checks that docs/howto/intercept.md has the medians of the last measurement.
func TestInterceptPage(t *testing.T) {
	report, err := result.LoadOutages(outageResults)
	if err != nil {
		t.Fatal(err)
	}
	header, rule := "| event |", "|---|"
	for _, p := range report.Peers {
		header, rule = header+" "+p.Name+" |", rule+"---|"
	}
	table := header + "\n" + rule + "\n"
	for _, e := range report.Events {
		table += "| " + e.Name + " |"
		for _, p := range report.Peers {
			lost, gap, ok := report.Median(e.Name, p.Name)
			if !ok {
				t.Fatalf("%s has no %q of %s", outageResults, e.Name, p.Name)
			}
			table += fmt.Sprintf(" %s lost, %s ms |", grouped(lost), grouped(gap))
		}
		table += "\n"
	}
	golden.CheckTable(t, "../docs/howto/intercept.md", "./bench -run TestInterceptPage", table)
}

// grouped rounds a value below a million, and puts a comma before its last three digits.
func grouped(value float64) string {
	n := int(math.Round(value))
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d,%03d", n/1000, n%1000)
}
