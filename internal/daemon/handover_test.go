package daemon

import (
	"log/slog"
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
