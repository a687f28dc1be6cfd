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

	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/intercept/helper"
	"github.com/node-dns/node-dns/internal/sys/journal"
	"github.com/node-dns/node-dns/internal/sys/termtext"
)

const usage = `Usage:
  node-dns-intercept run [--root DIR]    intercept the queries that node-dns requests, until it withdraws the request
  node-dns-intercept clean [--root DIR]  remove what a killed helper left: its rules, on kernels before 5.12, and its link
systemd runs both: see node-dns-intercept.service. They need CAP_NET_ADMIN.
Exit codes: 0 done, 1 failed, and the output says why, 2 usage error.
`

const (
	exitOK = iota
	exitFailed
	exitUsage
)

func main() { os.Exit(run(os.Args[1:], termtext.NewWriter(os.Stdout), termtext.NewWriter(os.Stderr))) }

func run(args []string, stdout, stderr io.Writer) int {
	verb, root, err := parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, usage)
		return exitOK
	case err != nil:
		termtext.WriteError(stderr, "node-dns-intercept", err)
		fmt.Fprint(stderr, usage)
		return exitUsage
	}
	if verb == "clean" {
		err = helper.Clean(root)
	} else {
		ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM, unix.SIGINT)
		defer stop()
		err = helper.Run(ctx, helper.Config{Root: root, Log: journal.NewLogger(stderr, "node-dns-intercept", slog.LevelInfo)})
	}
	if err != nil {
		termtext.WriteError(stderr, "node-dns-intercept", err)
		return exitFailed
	}
	return exitOK
}

func parse(args []string) (verb, root string, err error) {
	if len(args) == 0 {
		return "", "", errors.New("expected run or clean")
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	switch args[0] {
	case "run", "clean":
		flags.StringVar(&root, "root", "/", "")
	case "help", "-h", "--help":
		return "", "", flag.ErrHelp
	default:
		return "", "", fmt.Errorf("expected run or clean, got %q", args[0])
	}
	if err := flags.Parse(args[1:]); err != nil {
		return "", "", err
	}
	if flags.NArg() > 0 {
		return "", "", fmt.Errorf("%s takes no argument %q", args[0], flags.Arg(0))
	}
	if root, err = filepath.Abs(root); err != nil {
		return "", "", err
	}
	return args[0], root, nil
}
