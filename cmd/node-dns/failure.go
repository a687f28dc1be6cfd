package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/sys/termtext"
)

// Exit codes of all commands.
const (
	exitOK = iota
	exitProblem
	exitUsage
	exitNotRunning
	exitDenied
)

// errShown stands for a problem that is already in the output.
var errShown = errors.New("problem shown above")

// usageError is a mistake in the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// A failure is the reason why a command failed: as text for people, as JSON for programs.
type failure struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"` // Error
	Error      string `json:"error"`
	Hint       string `json:"hint,omitempty"` // what to do about it
	ExitCode   int    `json:"exitCode"`
}

// newFailure describes an error of a command.
func newFailure(cmd *cobra.Command, err error) failure {
	f := failure{APIVersion: control.APIVersion, Kind: "Error", Error: err.Error(), ExitCode: codeOf(err)}
	f.Hint = hint(cmd, err, f.ExitCode)
	return f
}

// codeOf returns the exit code for an error.
func codeOf(err error) int {
	var usage usageError
	var mistake control.MistakeError // the daemon detects some mistakes that this program cannot
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &usage), errors.As(err, &mistake):
		return exitUsage
	case errors.Is(err, control.ErrNotRunning):
		return exitNotRunning
	case errors.Is(err, os.ErrPermission):
		return exitDenied
	}
	return exitProblem
}

// hint returns the next step after an error, or "" if the error already says it.
func hint(cmd *cobra.Command, err error, code int) string {
	switch {
	case code == exitUsage:
		return fmt.Sprintf("see %q", cmd.CommandPath()+" --help")
	case code == exitDenied && cmd.Name() == "serve":
		return "on a node, run it as a service: systemctl start node-dns\n" +
			"elsewhere, run it without root: node-dns --root DIR serve --listen 127.0.0.1:10053 --upstream IP"
	case code == exitDenied && os.Geteuid() != 0:
		return "try it with sudo"
	case code == exitNotRunning && isOfHost(cmd):
		return `start it with "systemctl start node-dns"; "node-dns doctor" finds out why it does not run`
	case errors.Is(err, control.ErrNoAnswer) && isOfHost(cmd):
		return `"node-dns doctor" finds out why`
	}
	return ""
}

// isOfHost reports whether a command applies to this host and not to a tree given by --root.
func isOfHost(cmd *cobra.Command) bool {
	root, err := rootOf(cmd)
	return err == nil && root == "/"
}

// text formats the failure as the program's final message. The hint is on the same line if both are
// short.
func (f failure) text() string {
	switch {
	case f.Hint == "":
		return f.Error
	case f.ExitCode == exitUsage && !strings.Contains(f.Error, "\n"):
		return f.Error + "; " + f.Hint
	}
	return f.Error + "\n" + f.Hint
}

// WriteText implements page.
func (f failure) WriteText(w io.Writer) error {
	termtext.WriteError(w, "node-dns", errors.New(f.text()))
	return nil
}
