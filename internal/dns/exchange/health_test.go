package exchange

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// TestHealth: the state of a server after a series of events.
func TestHealth(t *testing.T) {
	const ok, fail, silent, check = "ok", "fail", "silent", "silent to the check"
	rows := []struct {
		name   string
		events []string
		want   State
		inRow  int
	}{
		{"nothing", nil, Unknown, 0},
		{"a response", []string{ok}, Up, 0},
		{"one failure", []string{fail}, Unknown, 1},
		{"two failures", []string{ok, fail, fail}, Up, 2},
		{"three failures in a row", []string{ok, fail, fail, fail}, Down, 3},
		{"three failures, never a response", []string{fail, fail, fail}, Down, 3},
		{"three failures not in a row", []string{fail, fail, ok, fail}, Up, 1},
		{"down, then a response", []string{fail, fail, fail, fail, ok}, Up, 0},
		{"down again", []string{fail, fail, fail, ok, fail, fail, fail}, Down, 3},
		// Silent names alone marked a server as down, and their late answers as up again.
		{"silent to queries only", []string{ok, silent, silent, silent, silent}, Up, 4},
		{"silent to the check too", []string{ok, silent, check, silent, silent}, Down, 3},
		{"silent to a check before its first response", []string{silent, check, ok, silent, silent, silent}, Up, 3},
		{"network error after silence", []string{ok, silent, fail, fail}, Down, 3},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			now := time.Unix(1000, 0)
			h := health{state: Unknown, since: now}
			for _, event := range row.events {
				now = now.Add(time.Second)
				before := h.state
				switch event {
				case ok:
					h.succeeded(10*time.Millisecond, now)
				case check:
					h.silentToCheck = true
				default:
					h.failed("timed out", event == silent, now)
				}
				if before != h.state && h.since != now {
					t.Errorf("%s: %s since %v", event, h.state, h.since)
				}
			}
			if h.state != row.want || h.inRow != row.inRow {
				t.Errorf("%s with %d in a row, want %s with %d", h.state, h.inRow, row.want, row.inRow)
			}
		})
	}
}

// TestTelling: a server that goes down and up every second is logged four times, then once a minute
// with the number of changes.
func TestTelling(t *testing.T) {
	start := time.Unix(1000, 0)
	h := health{state: Unknown, since: start}
	var logged []string
	for second := range 150 {
		now := start.Add(time.Duration(second) * time.Second)
		if second%2 == 1 {
			for range failuresToDown {
				h.failed("connection refused", false, now)
			}
		} else {
			h.succeeded(time.Millisecond, now)
		}
		if state, changes := h.tell(now); state != "" {
			logged = append(logged, fmt.Sprintf("%d %s %d", second, state, changes))
		}
	}
	want := []string{"1 down 1", "2 up 1", "3 down 1", "4 up 1", "61 down 57", "122 up 61"}
	if !slices.Equal(logged, want) {
		t.Errorf("told %q, want %q", logged, want)
	}
}

func TestChecks(t *testing.T) {
	now := time.Unix(1000, 0)
	var h health
	if !h.startCheck(now) || h.startCheck(now) {
		t.Error("want exactly one check of a silent server")
	}
	h.checking = false
	if h.startCheck(now.Add(betweenChecks-1)) || !h.startCheck(now.Add(betweenChecks)) {
		t.Error("want one check per betweenChecks")
	}
	h.checking, h.silentToCheck = false, true
	if h.startCheck(now.Add(time.Hour)) {
		t.Error("got a second check of a server that has been silent since its last check")
	}
}

func TestProbesBackOff(t *testing.T) {
	now := time.Unix(1000, 0)
	h := health{state: Up}
	if h.startProbe(now) {
		t.Error("got a probe of a server that is up")
	}
	for range failuresToDown {
		h.failed("connection refused", false, now)
	}
	var at []time.Duration
	for second := range 60 {
		if h.startProbe(now.Add(time.Duration(second) * time.Second)) {
			at = append(at, time.Duration(second)*time.Second)
			if h.startProbe(now.Add(time.Hour)) {
				t.Fatal("got two probes at the same time")
			}
			h.probing = false
		}
	}
	want := []time.Duration{1, 3, 7, 15, 30, 45}
	if len(at) != len(want) {
		t.Fatalf("probes at %v", at)
	}
	for i := range want {
		if at[i] != want[i]*time.Second {
			t.Errorf("probes at %v", at)
		}
	}
	if h.succeeded(time.Millisecond, now); h.backoff != 0 {
		t.Errorf("backoff %v after a response", h.backoff)
	}
}

func TestSmoothedRTT(t *testing.T) {
	var h health
	h.succeeded(80*time.Millisecond, time.Unix(0, 0))
	h.succeeded(160*time.Millisecond, time.Unix(0, 0))
	h.succeeded(10*time.Millisecond, time.Unix(0, 0))
	if want := 80 * time.Millisecond; h.rtt != want {
		t.Errorf("%v, want %v", h.rtt, want) // 80, 90, 80
	}
}

func TestEDNSMemory(t *testing.T) {
	now := time.Unix(1000, 0)
	var h health
	if !h.useEDNS(time.Time{}, false, now) || h.useEDNS(now, true, now) {
		t.Error("want EDNS for a new server, and none once it was silent")
	}
	// Packet loss looks like a rejection of EDNS; once or twice proves nothing.
	h.silentToEDNS(now)
	h.silentToEDNS(now)
	if !h.useEDNS(time.Time{}, false, now) {
		t.Error("no EDNS after two lost packets")
	}
	h.sawEDNS()
	h.heardAt = now
	if !h.useEDNS(now, false, now) {
		t.Error("no EDNS for a server that supports EDNS and answers other questions")
	}
	if h.useEDNS(now.Add(1), false, now.Add(1)) || !h.useEDNS(now.Add(1), true, now.Add(1)) {
		t.Error("for a server that answers nothing, want no EDNS, except for DNSSEC")
	}
	h.silentToEDNS(now)
	h.silentToEDNS(now)
	if h.silentToEDNS(now); h.useEDNS(time.Time{}, false, now.Add(plainFor-1)) || !h.useEDNS(time.Time{}, false, now.Add(plainFor)) {
		t.Error("after three times, want no EDNS for plainFor")
	}
}

// TestLateness: three late responses in a row demote a server. Losing three packets of ten keeps it
// there, one of a hundred does not. It recovers when it keeps up.
func TestLateness(t *testing.T) {
	for _, row := range []struct {
		name        string
		every, late int // late of every responses are late
		behind      bool
	}{
		{"never", 10, 0, false},
		{"one of a hundred", 100, 1, false},
		{"three of ten", 10, 3, true},
		{"always", 10, 10, true},
	} {
		h, behind := health{state: Up}, 0
		for i := range 1000 {
			if i%row.every < row.late {
				h.late(time.Unix(1000, 0))
			} else {
				h.lateness = h.lateness.met()
			}
			if h.rank() > 0 {
				behind++
			}
		}
		if got := behind > 300; got != row.behind || !row.behind && behind > 0 {
			t.Errorf("%s: demoted %d times of 1000", row.name, behind)
		}
		for range 40 {
			h.lateness = h.lateness.met()
		}
		if h.rank() != 0 || h.lateness < 0 {
			t.Errorf("%s: rank %d after 40 responses in time", row.name, h.rank())
		}
	}
}
