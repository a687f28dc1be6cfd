package resolve

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/policy"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// TestRefreshPanics: a panic while refreshing a stale answer is counted and logged.
func TestRefreshPanics(t *testing.T) {
	var log lab.Text
	c := config(0)
	c.Log = slog.New(slog.NewTextHandler(&log, nil))
	r := New(c, new(policy.Policy))
	r.refresh(func() { panic("out of cheese") })
	r.Close()
	if n := c.Panics.Count(); n != 1 || strings.Count(log.String(), "stack=") != 1 {
		t.Errorf("counted %d panics; the log is\n%s", n, log.String())
	}
}
