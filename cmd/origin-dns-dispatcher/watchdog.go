package main

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/node-dns/node-dns/internal/hostdns"
	"github.com/node-dns/node-dns/internal/sys/journal"
)

const (
	// hangTime is how long after its deadline the watchdog ends a hung run.
	hangTime = 500 * time.Millisecond
	// logTimeout bounds the log line about that, because logging may be what hangs.
	logTimeout = 100 * time.Millisecond
)

// within runs do and reports whether it ended within the limit. Otherwise do continues in the
// background until the process ends: a system call on a hung file system cannot be stopped.
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

// giveUp logs where a run hangs. Every file is the complete old or new one, as after a SIGKILL.
func (c command) giveUp(log *slog.Logger, progress *hostdns.Progress) {
	within(logTimeout, func() {
		log.Error("host DNS", "event", cmp.Or(c.event.Action, c.verb), "interface", c.event.Interface,
			"error", "timed out while "+progress.String(), journal.HookHung.Attr())
	})
}
