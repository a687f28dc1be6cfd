package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/node-dns/node-dns/internal/hostdns"
	"github.com/node-dns/node-dns/internal/sys/dbusconn"
)

// invocationEnv is systemd's ID of a unit's start (systemd.exec(5)). All commands of one start have
// the same.
const invocationEnv = "INVOCATION_ID"

// errNoStopPost means that resolv.conf would still name this node after a stop.
var errNoStopPost = errors.New("node-dns.service has no command \"ExecStopPost=+origin-dns-dispatcher stopped\": " +
	"check systemctl cat node-dns; /etc/resolv.conf stays unchanged")

// recordWayBack writes the stamp in ExecStartPre=, or in node-dns-apply.service if that command was
// killed. Its run proves that systemd can run this program as root, which is needed at a stop. A
// unit without the command that restores is refused. If systemd does not answer, ExecStartPre=
// still writes the stamp: a systemd that misses its deadlines during a slow boot must not keep the
// node without node-dns until the next start. node-dns-apply.service runs again later.
func (c command) recordWayBack(ctx context.Context, paths hostdns.Paths) error {
	own := os.Getenv(invocationEnv)
	if own == "" {
		return nil // run by a person
	}
	self, err := os.Stat("/proc/self/exe")
	if err != nil {
		return fmt.Errorf("reading this program's file: %w", err)
	}
	start, gone := own, false
	err = askSystemd(ctx, dbusconn.ManagerSocket, func(ctx context.Context, manager *dbusconn.Manager) error {
		commands, err := manager.StopPosts(ctx, daemonUnit)
		if err != nil {
			return err
		}
		gone = !slices.ContainsFunc(commands, func(c dbusconn.StopPost) bool { return restores(c, self) })
		id, err := manager.Invocation(ctx, daemonUnit)
		if err == nil {
			start = id
		}
		return err
	})
	switch {
	case gone:
		return errNoStopPost
	case err != nil && !c.capture:
		return err // the daemon requests another run
	case start == "":
		return nil // run by another unit, before node-dns
	}
	return paths.RecordWayBack(start)
}

// restores reports whether a command restores resolv.conf. It must be this program, which systemd
// has just run successfully.
func restores(c dbusconn.StopPost, self fs.FileInfo) bool {
	program, err := os.Stat(c.Program)
	return err == nil && os.SameFile(program, self) && c.Privileged && len(c.Argv) == 2 && c.Argv[1] == "stopped"
}
