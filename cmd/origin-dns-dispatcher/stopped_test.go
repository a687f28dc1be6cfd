package main

import (
	"testing"

	"github.com/node-dns/node-dns/internal/systemd"
)

// What becomes of it all, with systemd, is in test/nspawn.
func TestAftermath(t *testing.T) {
	for job, want := range map[systemd.Job]aftermath{
		systemd.Stop:    restoreNow,
		systemd.Restart: leaveAlone,
		systemd.NoJob:   giveChance,
		systemd.Start:   giveChance,
		"verify-active": giveChance,
	} {
		if got := aftermathOf(job); got != want {
			t.Errorf("job %q: %s, want %s", job, got, want)
		}
	}
}
