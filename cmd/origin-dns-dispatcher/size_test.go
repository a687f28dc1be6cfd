package main_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// maxSize is in bytes. NetworkManager starts the program for each event. TestDispatcherStaysSmall
// limits the import graph, which determines the rest of the start time.
const maxSize = 5_400_000

func TestSize(t *testing.T) {
	info, err := os.Stat(lab.Binary(t, "origin-dns-dispatcher"))
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() >= maxSize {
		t.Errorf("the stripped program has %d bytes, want less than %d", info.Size(), maxSize)
	}
}

// BenchmarkStart measures a complete run for an irrelevant event.
func BenchmarkStart(b *testing.B) {
	program := lab.Binary(b, "origin-dns-dispatcher")
	for b.Loop() {
		if out, err := exec.Command(program, "eth0", "pre-up").CombinedOutput(); err != nil || len(out) > 0 {
			b.Fatalf("%v\n%s", err, out)
		}
	}
}
