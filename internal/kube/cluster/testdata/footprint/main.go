// Footprint runs a Watcher and nothing else, and says what that costs when it is asked. It is not a test, because a
// test's process holds the API server too.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/node-dns/node-dns/internal/dns/zone"
	"github.com/node-dns/node-dns/internal/kube/cluster"
)

// cost is what the process has used.
type cost struct {
	State   cluster.State
	Peak    string // of the resident memory, since the last answer
	RSS     string // after what is free has been given back
	Heap    uint64 // octets in use, after a collection
	CPU     time.Duration
	Publish int
	First   time.Duration // from the start to the first state
}

func main() {
	published := make(chan struct{}, 1)
	var count int
	var first time.Duration
	began := time.Now()
	watcher := cluster.New(cluster.Config{
		Kubeconfig:   os.Args[1],
		SnapshotFile: os.Args[2],
		Log:          slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
		Features:     cluster.Features{PodNames: os.Args[3] == "pods"},
		Publish: func(*zone.Snapshot) {
			if count++; count == 1 {
				first = time.Since(began)
				published <- struct{}{}
			}
		},
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- watcher.Run(ctx) }()
	<-published
	asked := bufio.NewScanner(os.Stdin)
	for asked.Scan() {
		peak := memory("VmHWM")
		var usage syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
			panic(err)
		}
		var heap runtime.MemStats
		debug.FreeOSMemory()
		runtime.ReadMemStats(&heap)
		if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
			panic(err)
		}
		answer, err := json.Marshal(cost{
			State: watcher.State(), Peak: peak, RSS: memory("VmRSS"), Heap: heap.HeapAlloc, Publish: count, First: first,
			CPU: time.Duration(usage.Utime.Nano() + usage.Stime.Nano()),
		})
		if err != nil {
			panic(err)
		}
		fmt.Println(string(answer))
	}
	cancel()
	<-done
}

// memory reads a line of /proc/self/status.
func memory(name string) string {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		panic(err)
	}
	_, rest, _ := strings.Cut(string(status), name+":")
	line, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(line)
}
