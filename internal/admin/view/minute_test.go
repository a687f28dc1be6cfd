package view

import (
	"fmt"
	"testing"
	"time"
)

// TestLastMinute: what is told is the difference to a minute ago, and no more is kept than that takes.
func TestLastMinute(t *testing.T) {
	var m LastMinute
	began := time.Now()
	at := func(seconds int, queries uint64) Counted {
		return Counted{
			at: began.Add(time.Duration(seconds) * time.Second), Queries: queries, Responses: queries, NXDomain: queries / 2, ServFail: queries / 10,
			// Of ten, five took less than 1 ms, nine less than 2, and all less than 4.
			UpTo: map[time.Duration]uint64{time.Millisecond: queries / 2, 2 * time.Millisecond: queries * 9 / 10, 4 * time.Millisecond: queries},
		}
	}
	if got := m.since(at(0, 10)); got != nil {
		t.Errorf("before anything: %+v", got)
	}
	for i := range 100 {
		m.add(at(10*i, uint64(1000*i)))
		now := m.since(at(10*i+9, uint64(1000*i)))
		switch {
		case i == 0:
			if now != nil {
				t.Errorf("at once: %+v", now)
			}
			continue
		case now == nil || now.Queries != uint64(1000*min(i, 6)) && now.Queries != uint64(1000*min(i, 5)) || now.Over > 70*time.Second:
			t.Fatalf("after %d s: %+v", 10*i+9, now)
		}
		want := fmt.Sprint(now.Queries/2, now.Queries/10, time.Millisecond, 4*time.Millisecond)
		if got := fmt.Sprint(now.NXDomain, now.ServFail, now.P50, now.P99); got != want {
			t.Errorf("after %d s: %s, want %s", 10*i+9, got, want)
		}
		if len(m.samples) > 8 {
			t.Fatalf("%d samples", len(m.samples))
		}
	}
	if none := m.since(at(1000, 99_000)); none.Queries != 5000 && none.Queries != 6000 {
		t.Errorf("%+v", none)
	}
	m = LastMinute{samples: []Counted{at(0, 0)}}
	if slow := m.since(Counted{at: began.Add(time.Minute), Queries: 3, Responses: 3}); slow.P50 != 0 || slow.Queries != 3 {
		t.Errorf("those that took too long: %+v", slow)
	}
}
