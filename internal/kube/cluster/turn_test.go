package cluster

import (
	"errors"
	"testing"
	"time"

	"github.com/node-dns/node-dns/internal/kube/kubewire"
)

func TestTurn(t *testing.T) {
	var (
		fault   = errors.New("connection refused")
		expired = &statusError{Status: kubewire.Status{Code: 410, Reason: "Expired"}}
		future  = &statusError{Status: kubewire.Status{Code: 504, TooLargeVersion: true, RetryAfter: time.Second}}
		busy    = &statusError{Status: kubewire.Status{Code: 429, RetryAfter: 7 * time.Second}}
		forever = &statusError{Status: kubewire.Status{Code: 429, RetryAfter: time.Hour}}
	)
	after := func(asked, bound int) pause {
		least := time.Duration(asked) * time.Second
		return pause{least + time.Duration(bound)*time.Second/8, least + time.Duration(bound)*time.Second}
	}
	rows := []struct {
		name    string
		turn    turn
		outcome outcome
		objects int
		want    turn
		wait    pause
	}{
		{"watch after a list", turn{do: list}, outcome{version: 5}, 0, turn{do: watch, position: 5}, pause{}},
		{"watch after a list with failures", turn{do: list, failures: 4, newest: true}, outcome{version: 5}, 0, turn{do: watch, position: 5}, pause{}},
		{"watch ended normally", turn{do: watch, position: 5}, outcome{version: 9}, 0, turn{do: watch, position: 9}, pause{}},
		{"compare after a watch", turn{do: watch, position: 5}, outcome{version: 9, compare: true}, 0, turn{do: compare, position: 9}, pause{}},
		{"watch continues after a comparison", turn{do: compare, position: 9}, outcome{version: 12}, 0, turn{do: watch, position: 9}, pause{}},
		{"failed comparison", turn{do: compare, position: 9}, outcome{err: fault}, 0, turn{do: watch, position: 9, failures: 1}, after(0, 1)},
		{"broken watch resumes", turn{do: watch, position: 5}, outcome{version: 7, err: fault}, 0, turn{do: watch, position: 7, unsure: true, failures: 1}, after(0, 1)},
		{"resumed watch finds no restore", turn{do: watch, position: 7, unsure: true}, outcome{version: 7, isSure: true}, 0, turn{do: watch, position: 7}, pause{}},
		{"resumed watch ends before its check", turn{do: watch, position: 7, unsure: true}, outcome{version: 7}, 0, turn{do: watch, position: 7, unsure: true}, pause{}},
		{"resumed watch finds a restore", turn{do: watch, position: 7, unsure: true, failures: 3}, outcome{version: 6, err: errRewound}, 500, turn{do: list, newest: true}, pause{max: time.Second / 2}},
		{"check finds no restore", turn{do: check, position: 7, failures: 1}, outcome{version: 7}, 0, turn{do: watch, position: 7, failures: 1}, pause{}},
		{
			"check finds a restore",
			turn{do: check, position: 7, failures: 1},
			outcome{version: 6},
			0,
			turn{do: list, newest: true, failures: 1},
			pause{},
		},
		{"check fails", turn{do: check, position: 7, failures: 1}, outcome{err: fault}, 0, turn{do: check, position: 7, failures: 2}, after(0, 2)},
		{"check pause is limited", turn{do: check, position: 7, failures: 100}, outcome{err: fault}, 0, turn{do: check, position: 7, failures: 101}, after(0, 30)},
		{
			"long watch resets the failures",
			turn{do: watch, position: 5, failures: 9},
			outcome{version: 7, err: fault, lasted: time.Minute},
			0,
			turn{do: watch, position: 7, unsure: true, failures: 1},
			after(0, 1),
		},
		{"410 Gone in a small cluster", turn{do: watch, position: 5}, outcome{err: expired}, 500, turn{do: list, position: 5}, pause{max: minSpread}},
		{"410 Gone in a large cluster", turn{do: watch, position: 5}, outcome{err: expired}, 1e6, turn{do: list, position: 5}, pause{max: maxSpread}},
		{"server with an older version", turn{do: list, position: 5}, outcome{err: future}, 0, turn{do: check, position: 5, failures: 1}, after(1, 1)},
		{"list expired while it was read", turn{do: list, position: 5}, outcome{err: expired}, 0, turn{do: list, position: 5, newest: true, failures: 1}, after(0, 1)},
		{"Retry-After", turn{do: list}, outcome{err: busy}, 0, turn{do: list, failures: 1}, after(7, 5)},
		{"Retry-After within bounds", turn{do: list}, outcome{err: forever}, 0, turn{do: list, failures: 1}, after(120, 5)},
		{"rejected again", turn{do: list, failures: 3}, outcome{err: busy}, 0, turn{do: list, failures: 4}, after(7, 40)},
		{"rejected often", turn{do: list, failures: 100}, outcome{err: busy}, 0, turn{do: list, failures: 101}, after(7, 120)},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			got, wait := row.turn.next(row.outcome, row.objects)
			if got != row.want || wait != row.wait {
				t.Errorf("%+v after %+v, want %+v after %+v", got, wait, row.want, row.wait)
			}
		})
	}
}
