package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/node-dns/node-dns/internal/hostdns"
	"github.com/node-dns/node-dns/internal/systemd"
)

// invocationEnv is systemd's ID of a unit's start (systemd.exec(5)). The commands of one start share it.
const invocationEnv = "INVOCATION_ID"

// errNoStopPost: resolv.conf would keep naming this node after a stop.
var errNoStopPost = errors.New("node-dns.service has no command \"ExecStopPost=+origin-dns-dispatcher stopped\": " +
	"see systemctl cat node-dns; /etc/resolv.conf stays as it is")

// recordWayBack is for ExecStartPre=: that it runs shows that systemd can run this program as root, as it has to at a stop.
// A unit without the command that restores is refused. systemd before 243 cannot tell, which is not held against it.
func (c command) recordWayBack(ctx context.Context, paths hostdns.Paths) error {
	invocation := os.Getenv(invocationEnv)
	if invocation == "" {
		return nil // run by a person
	}
	ctx, cancel := context.WithTimeout(ctx, systemdTimeout)
	defer cancel()
	if commands, err := stopCommands(ctx); err == nil && !slices.ContainsFunc(commands, restores) {
		return errNoStopPost
	}
	return paths.RecordWayBack(invocation)
}

func stopCommands(ctx context.Context) ([]systemd.StopPost, error) {
	manager, err := systemd.Dial(ctx, systemd.Socket)
	if err != nil {
		return nil, err
	}
	defer manager.Close()
	return manager.StopPosts(ctx, daemonUnit)
}

// restores reports whether a command gives resolv.conf back.
func restores(c systemd.StopPost) bool {
	return c.Privileged && len(c.Argv) == 2 && filepath.Base(c.Argv[0]) == "origin-dns-dispatcher" && c.Argv[1] == "stopped"
}
