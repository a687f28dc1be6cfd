package view

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/node-dns/node-dns/internal/admin/control"
)

// TestLastMinute proves that the result is the difference from a minute ago and that no more
// samples than needed are kept.
func TestLastMinute(t *testing.T) {
	var m LastMinute
	began := time.Now()
	at := func(seconds int, queries uint64) Counted {
		return Counted{
			at: began.Add(time.Duration(seconds) * time.Second), Queries: queries, Responses: queries, NXDomain: queries / 2, ServFail: queries / 10,
			// Of ten responses, five took less than 1 ms, nine less than 2 ms, and all less than 4
			// ms.
			UpTo: map[time.Duration]uint64{time.Millisecond: queries / 2, 2 * time.Millisecond: queries * 9 / 10, 4 * time.Millisecond: queries},
		}
	}
	if got := m.since(at(0, 10)); got != nil {
		t.Errorf("got %+v without samples", got)
	}
	for i := range 100 {
		m.add(at(10*i, uint64(1000*i)))
		now := m.since(at(10*i+9, uint64(1000*i)))
		switch {
		case i == 0:
			if now != nil {
				t.Errorf("got %+v at once", now)
			}
			continue
		case now == nil || now.Queries != uint64(1000*min(i, 6)) && now.Queries != uint64(1000*min(i, 5)) || now.Over > 70*time.Second:
			t.Fatalf("after %d s: got %+v", 10*i+9, now)
		}
		want := fmt.Sprint(now.Queries/2, now.Queries/10, time.Millisecond, 4*time.Millisecond)
		if got := fmt.Sprint(now.NXDomain, now.ServFail, now.P50, now.P99); got != want {
			t.Errorf("after %d s: got %s, want %s", 10*i+9, got, want)
		}
		if len(m.samples) > 8 {
			t.Fatalf("got %d samples", len(m.samples))
		}
	}
	if none := m.since(at(1000, 99_000)); none.Queries != 5000 && none.Queries != 6000 {
		t.Errorf("got %+v", none)
	}
	m = LastMinute{samples: []Counted{at(0, 0)}}
	if slow := m.since(Counted{at: began.Add(time.Minute), Queries: 3, Responses: 3}); slow.P50 != 0 || slow.Queries != 3 {
		t.Errorf("got %+v for responses above all bounds", slow)
	}
}

// TestFailingServers proves that failures are counted since the earlier sample, or from zero for a
// new server.
func TestFailingServers(t *testing.T) {
	server := func(address string, queries, failures, refusals uint64) control.ServerMinute {
		return control.ServerMinute{Address: address, Queries: queries, Failures: failures, Refusals: refusals}
	}
	before := []control.ServerMinute{server("failed before", 10, 5, 1), server("fails", 10, 5, 1), server("was counted anew", 10, 5, 1)}
	now := []control.ServerMinute{server("failed before", 20, 5, 1), server("fails", 20, 7, 4), server("was counted anew", 3, 1, 0), server("is new", 2, 0, 2)}
	want := []control.ServerMinute{server("fails", 10, 2, 3), server("was counted anew", 3, 1, 0), server("is new", 2, 0, 2)}
	if diff := cmp.Diff(want, failing(before, now)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestLimitsOfMinute proves that clients that are not allowed to send queries are counted
// separately from other limits.
func TestLimitsOfMinute(t *testing.T) {
	began := time.Now()
	m := LastMinute{samples: []Counted{{at: began, Refused: 1, Limits: control.Limits{Strangers: 1, Hasty: 1}}}}
	got := m.since(Counted{at: began.Add(time.Minute), Refused: 9, Limits: control.Limits{Strangers: 4, Hasty: 3, Crowding: 5, Full: 7}})
	if got.Refused != 8 || got.Strangers != 3 || got.Limited != 14 {
		t.Errorf("got %+v", got)
	}
}
