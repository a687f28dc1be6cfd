package main

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/node-dns/node-dns/internal/hostdns"
	"github.com/node-dns/node-dns/internal/sys/journal"
)

const (
	// hangTime is how long after its deadline a run is given up that did not end.
	hangTime = 500 * time.Millisecond
	// logTimeout is how long the line about that may take: the log may be what hangs.
	logTimeout = 100 * time.Millisecond
)

// within runs do and reports whether it ended within the limit. If not, do goes on behind our back until the process ends:
// nothing stops a system call on a file system that does not answer.
func within(limit time.Duration, do func()) bool {
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	select {
	case <-done:
		return true
	case <-time.After(limit):
		return false
	}
}

// giveUp logs at what a run hangs. Every file is the old or the new one, whole, as after a SIGKILL.
func (c command) giveUp(log *slog.Logger, progress *hostdns.Progress) {
	within(logTimeout, func() {
		log.Error("host DNS", "event", cmp.Or(c.event.Action, c.verb), "interface", c.event.Interface,
			"error", "given up: hangs while "+progress.String(), journal.HookHung.Attr())
	})
}
