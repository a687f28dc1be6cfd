package daemon

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// TestPanics: a panic in a request at the control socket, or in a look, is counted and logged.
func TestPanics(t *testing.T) {
	var log lab.Text
	d := &Daemon{log: slog.New(slog.NewTextHandler(&log, nil))}
	d.admin().Panicked("out of cheese")
	if n := d.panics.Count(); n != 1 || strings.Count(log.String(), "stack=") != 1 {
		t.Errorf("%d panics counted; log\n%s", n, log.String())
	}
}
