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
	// systemdTimeout bounds the first question to systemd. It usually answers within a millisecond,
	// but on a busy node 300 ms were not always enough, and a restart was mistaken for a stop.
	// node-dns does not start again before this program has ended.
	systemdTimeout = 800 * time.Millisecond
	// restoreReserve is the part of verbTimeout that a second question must leave for the restore.
	restoreReserve = 4 * time.Second
	// failedStartPause delays the next start of a daemon that did not become ready. RestartSec= is
	// short, for a daemon that was killed while queries wait. With only that, starts that fail
	// every 0.1 s would log 60 lines a second to the journal. (systemd 254 and later have
	// RestartSteps= for this.)
	failedStartPause = time.Second
)

// aftermath is the action for resolv.conf after node-dns has ended.
type aftermath string

const (
	restoreNow aftermath = "restore" // it stopped permanently
	leaveAlone aftermath = "leave"   // it restarts at once, and its sockets stay open
	// giveChance: systemd starts it again, which may fail. A parallel run waits a moment for it.
	giveChance aftermath = "wait"
)

// aftermathOf decides by systemd's job for the unit. Without a job, the daemon crashed, was killed,
// or hung. With a start job, it failed during its start.
func aftermathOf(job dbusconn.Job) aftermath {
	switch job {
	case dbusconn.Stop:
		return restoreNow
	case dbusconn.Restart:
		return leaveAlone
	}
	return giveChance
}

// stopping runs in ExecStop=, while the daemon still answers, so that a permanent stop never leaves
// the host without DNS, even if queries in progress take long. A restart changes nothing. If
// systemd does not answer, stopped decides.
func (c command) stopping(ctx context.Context, runner hostdns.Runner) (complete bool, err error) {
	job, err := daemonJob(ctx)
	if err != nil || job != dbusconn.Stop {
		return true, nil
	}
	runner.Ending = true
	return isComplete(runner.Restore(ctx, true)), nil
}

// daemonJob asks systemd for its job for the daemon's unit.
func daemonJob(ctx context.Context) (job dbusconn.Job, err error) {
	err = askSystemd(ctx, dbusconn.ManagerSocket, func(ctx context.Context, manager *dbusconn.Manager) (err error) {
		job, err = manager.Job(ctx, daemonUnit)
		return err
	})
	return job, err
}

// stopped runs in ExecStopPost=, however the daemon ended. If systemd does not answer, the node
// gets its original nameservers back. If the daemon starts again, it points resolv.conf here again.
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
		runner.Log.Warn("node-dns has ended, but systemd does not report why; restoring", "error", err)
	} else {
		runner.Log.Info("node-dns has ended", "job", string(job), "result", os.Getenv("SERVICE_RESULT"))
	}
	return isComplete(runner.Restore(ctx, true)), nil
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// ask asks systemd for the job, and starts the apply unit if the daemon gets another chance.
func (c command) ask(ctx context.Context, runner hostdns.Runner) (then aftermath, job dbusconn.Job, err error) {
	if job, err = daemonJob(ctx); err != nil {
		return restoreNow, job, err
	}
	then = aftermathOf(job)
	if then != giveChance || !runner.Looker.Paths.PointsHere() {
		return then, job, nil
	}
	runner.Log.Warn("node-dns has ended and systemd restarts it; waiting", slog.String("result", os.Getenv("SERVICE_RESULT")),
		slog.String("code", os.Getenv("EXIT_CODE")), slog.String("status", os.Getenv("EXIT_STATUS")), journal.Died.Attr())
	err = askSystemd(ctx, dbusconn.ManagerSocket, func(ctx context.Context, manager *dbusconn.Manager) error { return manager.Start(ctx, applyUnit) })
	if err != nil {
		return restoreNow, job, err
	}
	return then, job, nil
}

// askSystemd asks systemd one question over its own connection, and again if that misses its
// deadline.
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
