// origin-dns-dispatcher is NetworkManager's hook: it captures the original upstream nameservers, hands them to
// node-dns, and points /etc/resolv.conf at this node while node-dns answers.
//
// NetworkManager runs it as `99-origin-dns IFACE ACTION` for every event; a person, a systemd unit or a package
// scriptlet runs its verbs.
//
// Go need not read the cgroup's limits for a GOMAXPROCS that main sets.
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
	// eventTimeout bounds a run for NetworkManager, which runs its hooks one after the other: an activation waits for pre-up
	// behind a slow one.
	eventTimeout = 3 * time.Second
	// verbTimeout bounds a verb's run. An overloaded node may need that long to restore resolv.conf, and only a unit waits for
	// it: less than its TimeoutStartSec= (10 s) and TimeoutStopSec= (15 s).
	verbTimeout = 8 * time.Second
)

func main() {
	// The daemon must get into the directories that are made here, whatever the umask of root's shell. Files get their
	// mode in any case.
	unix.Umask(0o022)
	// A run waits more than it works. With a second processor Go's idle threads look for work, which costs a quarter of its time.
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
			return // its form exits 0 whatever happens
		}
		os.Exit(exitUsage)
	}
	ctx, cancel := context.WithTimeout(context.Background(), command.timeout())
	defer cancel()
	os.Exit(command.run(ctx, stdout, stderr))
}
