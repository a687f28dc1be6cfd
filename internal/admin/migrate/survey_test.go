package migrate

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// fakeSystemctl puts a systemctl into $PATH that hangs in its first runs, as if systemd were busy.
// It returns the file in which the runs are counted.
func fakeSystemctl(t *testing.T, silent string) (runs string) {
	t.Helper()
	dir := t.TempDir()
	runs = filepath.Join(dir, "runs")
	script := "#!/bin/sh\necho >>" + runs + "\n[ \"$(wc -l <" + runs + ")\" -gt " + silent + " ] || exec sleep 1000\necho LoadState=loaded\n"
	if err := os.WriteFile(filepath.Join(dir, "systemctl"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return runs
}

// TestSlowSystemd: doctor reported one missed deadline of systemd as "signal: killed" and checked
// no unit.
func TestSlowSystemd(t *testing.T) {
	fakeSystemctl(t, "1")
	units, err := showUnits(t.Context(), time.Second, []string{"node-dns.service"})
	if err != nil || units["node-dns.service"].Load != "loaded" {
		t.Errorf("got %+v, %v", units, err)
	}
}

func TestHangingSystemd(t *testing.T) {
	runs := fakeSystemctl(t, "1000")
	_, err := showUnits(t.Context(), 200*time.Millisecond, []string{"node-dns.service"})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if text, err := os.ReadFile(runs); len(text) > 3 { // on a busy machine, a run may be killed before it is counted
		t.Errorf("got %d runs, %v", len(text), err)
	}
}
