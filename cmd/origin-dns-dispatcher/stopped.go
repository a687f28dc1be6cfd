package main

import (
	"context"
	"log/slog"
	"os"
	"time"

	"github.com/node-dns/node-dns/internal/hostdns"
	"github.com/node-dns/node-dns/internal/sys/dbusconn"
	"github.com/node-dns/node-dns/internal/sys/journal"
)

const (
	daemonUnit = "node-dns.service"
	applyUnit  = "node-dns-apply.service"
	// systemdTimeout bounds the first try to ask systemd. It answers within a millisecond, but on a busy node 300 ms were not always enough, and
	// a restart was taken for a stop. node-dns does not start again before.
	systemdTimeout = 800 * time.Millisecond
	// restoreReserve is the part of verbTimeout that a second try leaves for the restore.
	restoreReserve = 4 * time.Second
	// failedStartPause comes before the next start of a daemon that did not get ready. RestartSec= is for one that was killed, and has
	// queries waiting; a start that fails each 0.1 s would be 60 lines a second in the journal, for as long as it fails. (systemd 254 and
	// later have RestartSteps= for this.)
	failedStartPause = time.Second
)

// aftermath is what becomes of resolv.conf when node-dns has ended.
type aftermath string

const (
	restoreNow aftermath = "restore" // it stops for good
	leaveAlone aftermath = "leave"   // it starts again at once, and its sockets are kept meanwhile
	// giveChance: systemd starts it again, which may come to nothing. A run beside this one waits a moment for it.
	giveChance aftermath = "wait"
)

// aftermathOf decides by what systemd is about to do with the unit. Without a job it crashed, was killed, or hung; with a start it failed
// while it started.
func aftermathOf(job dbusconn.Job) aftermath {
	switch job {
	case dbusconn.Stop:
		return restoreNow
	case dbusconn.Restart:
		return leaveAlone
	}
	return giveChance
}

// stopping is for ExecStop=, while the daemon still answers: who stops it for good has DNS all the time, however long the queries under
// way take to end. A restart touches nothing. Where systemd cannot be asked, that is left to stopped.
func (c command) stopping(ctx context.Context, runner hostdns.Runner) (complete bool, err error) {
	var job dbusconn.Job
	err = askSystemd(ctx, dbusconn.ManagerSocket, func(ctx context.Context, manager *dbusconn.Manager) (err error) {
		job, err = manager.Job(ctx, daemonUnit)
		return err
	})
	if err != nil || job != dbusconn.Stop {
		return true, nil
	}
	runner.Ending = true
	plan, result, err := runner.Restore(ctx, true)
	return err == nil && plan.Complete(result.Silence), nil
}

// stopped is for ExecStopPost=, which is run however the daemon ended. Where systemd cannot be asked, the node gets its original
// nameservers: the daemon, should it start again, takes them over.
func (c command) stopped(ctx context.Context, runner hostdns.Runner) (complete bool, err error) {
	then, job, err := c.ask(ctx, runner)
	switch {
	case then == giveChance && job == dbusconn.Start:
		pause(ctx, failedStartPause)
		return true, nil
	case then == giveChance, then == leaveAlone:
		return true, nil
	}
	if err != nil {
		runner.Log.Warn("node-dns has ended, and systemd does not say why: restoring", "error", err)
	} else {
		runner.Log.Info("node-dns has ended", "job", string(job), "result", os.Getenv("SERVICE_RESULT"))
	}
	plan, result, err := runner.Restore(ctx, true)
	return err == nil && plan.Complete(result.Silence), nil
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// ask asks systemd, and does what only systemd can do.
func (c command) ask(ctx context.Context, runner hostdns.Runner) (then aftermath, job dbusconn.Job, err error) {
	err = askSystemd(ctx, dbusconn.ManagerSocket, func(ctx context.Context, manager *dbusconn.Manager) (err error) {
		job, err = manager.Job(ctx, daemonUnit)
		return err
	})
	if err != nil {
		return restoreNow, job, err
	}
	then = aftermathOf(job)
	if then != giveChance || !runner.Looker.Paths.PointsHere() {
		return then, job, nil
	}
	runner.Log.Warn("node-dns has ended and is started again: waiting for it", slog.String("result", os.Getenv("SERVICE_RESULT")),
		slog.String("code", os.Getenv("EXIT_CODE")), slog.String("status", os.Getenv("EXIT_STATUS")), journal.Died.Attr())
	err = askSystemd(ctx, dbusconn.ManagerSocket, func(ctx context.Context, manager *dbusconn.Manager) error { return manager.Start(ctx, applyUnit) })
	if err != nil {
		return restoreNow, job, err
	}
	return then, job, nil
}

// askSystemd puts one question to systemd, over a connection of its own, and again if that misses its deadline.
func askSystemd(ctx context.Context, socket string, question func(context.Context, *dbusconn.Manager) error) error {
	return dbusconn.Retry(ctx, systemdTimeout, restoreReserve, func(ctx context.Context) error {
		manager, err := dbusconn.DialManager(ctx, socket)
		if err != nil {
			return err
		}
		defer manager.Close()
		return question(ctx, manager)
	})
}
