// origin-dns-dispatcher is NetworkManager's hook: it captures the original upstream nameservers, hands them to
// node-dns, and points /etc/resolv.conf at this node while node-dns answers.
//
// NetworkManager runs it as `99-origin-dns IFACE ACTION` for every event; a person, a systemd unit or a package
// scriptlet runs its verbs.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// runTimeout bounds a whole run; hangTimeout is for one that heeds no deadline. NetworkManager runs its hooks one after
// the other, and an activation waits for pre-up behind a slow one.
const runTimeout = 2 * time.Second

func main() {
	// The daemon must get into the directories that are made here, whatever the umask of root's shell. Files get their
	// mode in any case.
	unix.Umask(0o022)
	ctx, cancel := context.WithTimeout(context.Background(), runTimeout)
	defer cancel()
	fromNetworkManager := os.Getenv("NM_DISPATCHER_ACTION") != ""
	command, err := parseCommand(os.Args[1:], fromNetworkManager)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Print(usage)
		return
	case err != nil:
		fmt.Fprintf(os.Stderr, "origin-dns-dispatcher: %v\n%s", err, usage)
		if fromNetworkManager {
			return // its form exits 0 whatever happens
		}
		os.Exit(exitUsage)
	}
	os.Exit(command.run(ctx, os.Stdout, os.Stderr))
}
