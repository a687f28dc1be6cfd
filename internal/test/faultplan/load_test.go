package faultplan

import "testing"

// TestUnharmed: right answers may still be late, and a busy machine is late by itself.
func TestUnharmed(t *testing.T) {
	tests := []struct {
		name        string
		right       int
		p99, before float64 // ms
		resident    float64 // MB
		fault       string
	}{
		{name: "as before", right: 1000, p99: 2, before: 2, resident: 25},
		{name: "slower, still fast", right: 1000, p99: 40, before: 1, resident: 25},
		{name: "as slow as before", right: 1000, p99: 550, before: 300, resident: 25},
		{name: "slow", right: 1000, p99: 600, before: 2, resident: 25, fault: "the 99th percentile was 600.0 ms, and 2.0 ms before"},
		{name: "twice as slow as before", right: 1000, p99: 601, before: 300, resident: 25, fault: "the 99th percentile was 601.0 ms, and 300.0 ms before"},
		{name: "one of a thousand failed", right: 999, p99: 2, before: 2, resident: 25},
		{name: "two of a thousand failed", right: 998, p99: 2, before: 2, resident: 25, fault: "998 of 1000 answers were right"},
		{name: "large", right: 1000, p99: 2, before: 2, resident: 65, fault: "65 MB were resident"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			o := Outcome{Asked: 1000, Right: test.right, P99: test.p99, Facts: []Fact{{p99Calm, test.before}, {memoryMB, test.resident}}}
			if fault := wantUnharmed(o); fault != test.fault {
				t.Errorf("got %q, expected %q", fault, test.fault)
			}
		})
	}
}
