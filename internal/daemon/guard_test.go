package daemon

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// TestPanics: a fault of what is asked at the socket, or of a look around, is counted and told.
func TestPanics(t *testing.T) {
	var log lab.Text
	d := &Daemon{log: slog.New(slog.NewTextHandler(&log, nil))}
	d.admin().Panicked("out of cheese")
	if n := d.panics.Count(); n != 1 || strings.Count(log.String(), "stack=") != 1 {
		t.Errorf("%d panics are counted; the log is\n%s", n, log.String())
	}
}
