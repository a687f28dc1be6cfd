package daemon

import (
	"log/slog"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// TestLogHandover: a file of an earlier daemon that cannot be used is logged and is not fatal.
func TestLogHandover(t *testing.T) {
	t.Parallel()
	file, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	log := new(lab.Text)
	start(t, map[string]string{}, func(c *Config) {
		c.Log = slog.New(slog.NewTextHandler(log, nil))
		c.Inherited = []*os.File{file}
	})
	if !strings.Contains(log.String(), "name="+os.DevNull+" error=\"unusable\\nno service manager\" condition=handover-failed\n") {
		t.Errorf("the log:\n%s", log)
	}
}

// TestMostCacheDump: a hand-over takes at most an eighth of the memory limit for the dump and its
// copy.
func TestMostCacheDump(t *testing.T) {
	for limit, want := range map[int64]int{0: 16 << 20, 32 << 20: 2 << 20, 64 << 20: 4 << 20, limitOfGo(512<<20, math.MaxInt64): 16 << 20, 1 << 40: 16 << 20} {
		if got := mostCacheDump(limit); got != want {
			t.Errorf("with %d bytes: %d, want %d", limit, got, want)
		}
	}
}
