package cluster

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestSnapshotWithoutRoom: a state that does not fit is logged once and leaves the previous file
// intact. The next state that fits is saved, and that is logged too. A file size limit stands in
// for a full disk: both fail in the same write.
func TestSnapshotWithoutRoom(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cluster.snapshot")
	var log bytes.Buffer
	w := New(Config{SnapshotFile: path, Log: slog.New(slog.NewTextHandler(&log, nil))})
	write := func(states ...[]byte) {
		saves := make(chan []byte, len(states))
		for _, state := range states {
			saves <- state
		}
		close(saves)
		if err := w.writeSaves(saves); err != nil {
			t.Fatal(err)
		}
	}
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	const room = 1 << 20
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: room, Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Setrlimit(unix.RLIMIT_FSIZE, &before) }()
	large := bytes.Repeat([]byte("x"), 2*room)
	write([]byte("first"), large, large, large)
	if text, err := os.ReadFile(path); err != nil || string(text) != "first" {
		t.Errorf("got a file of %d bytes, error %v", len(text), err)
	}
	if said := strings.Count(log.String(), "cannot save the cluster state"); said != 1 {
		t.Errorf("got %d log lines, want 1:\n%s", said, &log)
	}
	log.Reset()
	write(large, []byte("second"), []byte("third"))
	if text, err := os.ReadFile(path); err != nil || string(text) != "third" {
		t.Errorf("after the limit is lifted: got file %q, error %v", text, err)
	}
	if lines := strings.Count(log.String(), "\n"); lines != 2 || !strings.Contains(log.String(), "saving the cluster state for the next start again") {
		t.Errorf("got log\n%s", &log)
	}
}
