// node-dns-intercept brings pods' queries to node-dns while that answers. systemd runs it as root
// when node-dns requests interception; see package helper.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/intercept/helper"
	"github.com/node-dns/node-dns/internal/sys/journal"
	"github.com/node-dns/node-dns/internal/sys/termtext"
)

const usage = `Usage:
  node-dns-intercept run [--root DIR] [--stay]
                                         intercept the queries that node-dns requests, until it withdraws the request;
                                         with --stay, then wait for the next request, as a container must
  node-dns-intercept clean [--root DIR]  remove what a killed helper left: its rules, on kernels before 5.12, and its link
  node-dns-intercept alive [--root DIR]  check that "run --stay" does not hang: its liveness probe
systemd runs the first two: see node-dns-intercept.service. They need CAP_NET_ADMIN.
Exit codes: 0 done, 1 failed, and the output says why, 2 usage error.
`

const (
	exitOK = iota
	exitFailed
	exitUsage
)

func main() { os.Exit(run(os.Args[1:], termtext.NewWriter(os.Stdout), termtext.NewWriter(os.Stderr))) }

func run(args []string, stdout, stderr io.Writer) int {
	verb, config, err := parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, usage)
		return exitOK
	case err != nil:
		termtext.WriteError(stderr, "node-dns-intercept", err)
		fmt.Fprint(stderr, usage)
		return exitUsage
	}
	switch verb {
	case "clean":
		err = helper.Clean(config.Root)
	case "alive":
		err = helper.Alive(config.Root, time.Now())
	default:
		ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM, unix.SIGINT)
		defer stop()
		config.Log = journal.NewLogger(stderr, "node-dns-intercept", slog.LevelInfo)
		err = helper.Run(ctx, config)
	}
	if err != nil {
		termtext.WriteError(stderr, "node-dns-intercept", err)
		return exitFailed
	}
	return exitOK
}

func parse(args []string) (verb string, config helper.Config, err error) {
	if len(args) == 0 {
		return "", config, errors.New("expected run, clean or alive")
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&config.Root, "root", "/", "")
	switch args[0] {
	case "run":
		flags.BoolVar(&config.Stay, "stay", false, "")
	case "clean", "alive":
	case "help", "-h", "--help":
		return "", config, flag.ErrHelp
	default:
		return "", config, fmt.Errorf("expected run, clean or alive, got %q", args[0])
	}
	if err := flags.Parse(args[1:]); err != nil {
		return "", config, err
	}
	if flags.NArg() > 0 {
		return "", config, fmt.Errorf("%s takes no argument %q", args[0], flags.Arg(0))
	}
	if config.Root, err = filepath.Abs(config.Root); err != nil {
		return "", config, err
	}
	return args[0], config, nil
}
