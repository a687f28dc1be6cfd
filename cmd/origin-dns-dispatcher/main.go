// origin-dns-dispatcher is NetworkManager's hook. It captures the original upstream nameservers,
// passes them to node-dns, and points /etc/resolv.conf at this node while node-dns answers.
//
// NetworkManager runs it as `99-origin-dns IFACE ACTION` for every event. A person, a systemd unit
// or a package scriptlet runs its verbs.
//
// Go need not read the cgroup's limits, because main sets GOMAXPROCS.
//
//go:debug containermaxprocs=0
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/sys/termtext"
)

const (
	// eventTimeout bounds a run for NetworkManager, which runs its hooks one after the other: the
	// pre-up of an activation waits for a slow one.
	eventTimeout = 3 * time.Second
	// verbTimeout bounds a verb's run. An overloaded node may need that long to restore
	// resolv.conf, and only a unit waits for it. It is less than that unit's TimeoutStartSec= (10
	// s) and TimeoutStopSec= (15 s).
	verbTimeout = 8 * time.Second
)

func main() {
	// The daemon must be able to enter the directories that are created here, regardless of the
	// umask of root's shell. Files get an explicit mode.
	unix.Umask(0o022)
	// A run mostly waits. With a second processor Go's idle threads search for work, which costs a
	// quarter of the processor time.
	runtime.GOMAXPROCS(1)
	fromNetworkManager := os.Getenv("NM_DISPATCHER_ACTION") != ""
	stdout, stderr := termtext.NewWriter(os.Stdout), termtext.NewWriter(os.Stderr)
	command, err := parseCommand(os.Args[1:], fromNetworkManager)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, usage)
		return
	case err != nil:
		termtext.WriteError(stderr, "origin-dns-dispatcher", err)
		fmt.Fprint(stderr, usage)
		if fromNetworkManager {
			return // NetworkManager's form always exits 0
		}
		os.Exit(exitUsage)
	}
	ctx, cancel := context.WithTimeout(context.Background(), command.timeout())
	defer cancel()
	os.Exit(command.run(ctx, stdout, stderr))
}
