package result_test

import (
	"fmt"
	"testing"

	"github.com/node-dns/node-dns/bench/result"
)

func TestSummarize(t *testing.T) {
	rows := map[string]result.Row{}
	for _, row := range result.Summarize(report()) {
		rows[row.Workload+" "+row.Peer] = row
	}
	for _, test := range []struct {
		name, row, want string
	}{
		{"the median, and not the ratio of medians", "hits node-dns", "4.20 1.10× 0.84× 0 0"},
		{"a disturbed round counts and is marked", "hits unbound", "4.50 1.50× 1.00× 0 1"},
		{"the limit cannot be the best peer", "hits echo", "3.50 1.00× 0.80× 0 0"},
		{"a peer that loses half is not the best", "misses node-dns", "12.00 4.00× 1.20× 0 0"},
		{"lost answers count toward the cost", "misses dnsmasq", "4.00 1.33× 0.40× 50000 0"},
		{"a failed run has no cost", "memory unbound", "0.00 0.00× 0.00× 0 0"},
	} {
		t.Run(test.name, func(t *testing.T) {
			row, ok := rows[test.row]
			if !ok {
				t.Fatal("no such row")
			}
			got := fmt.Sprintf("%.2f %.2f× %.2f× %d %d", row.Cost, row.ToLimit.Median, row.ToBest.Median, row.Lost, row.Noisy)
			if got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
	if _, ok := rows["misses coredns"]; ok {
		t.Error("there is a row for an unmeasured workload")
	}
}
