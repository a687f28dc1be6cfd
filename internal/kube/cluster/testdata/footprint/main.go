// Footprint runs only a Watcher and reports its cost on request. It is a separate program, because
// a test process also contains the API server.
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

// cost is the resource usage of the process.
type cost struct {
	State   cluster.State
	Peak    string // peak resident memory since the last report
	RSS     string // resident memory after free memory was returned to the kernel
	Heap    uint64 // bytes in use after a garbage collection
	CPU     time.Duration
	Publish int
	First   time.Duration // time from the start to the first state
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

// memory returns the value of a line of /proc/self/status.
func memory(name string) string {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		panic(err)
	}
	_, rest, _ := strings.Cut(string(status), name+":")
	line, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(line)
}
