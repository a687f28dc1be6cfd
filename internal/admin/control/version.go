package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/node-dns/node-dns/internal/sys/termtext"
)

// Versions are the versions of this program and of the running daemon.
type Versions struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Version    string `json:"version"`
	Commit     string `json:"commit,omitempty"` // empty if the program was built outside a repository and no commit was set
	Modified   bool   `json:"modified,omitempty"`
	Go         string `json:"go"`
	Daemon     string `json:"daemon,omitempty"`      // if empty, DaemonErr says why
	DaemonErr  string `json:"daemonError,omitempty"` // empty if Daemon is known
}

// Ask asks the daemon that listens on path for its version.
func (v *Versions) Ask(ctx context.Context, path string) {
	status, err := FetchStatus(ctx, path)
	switch {
	case errors.Is(err, ErrNotRunning):
		v.DaemonErr = ErrNotRunning.Error()
	case err != nil:
		v.DaemonErr = err.Error()
	default:
		v.Daemon = status.Version
	}
}

// Differ reports whether the daemon's version differs from this program's.
func (v Versions) Differ() bool { return v.Daemon != "" && v.Daemon != v.Version }

// Dirty is the suffix of a revision built from a modified tree, as in `git describe --dirty`.
const Dirty = "-dirty"

// Revision returns the commit, with the suffix Dirty if the tree was modified. It is empty if the
// commit is unknown.
func (v Versions) Revision() string {
	if v.Commit == "" || !v.Modified {
		return v.Commit
	}
	return v.Commit + Dirty
}

// WriteText prints the text of --version and more.
func (v Versions) WriteText(w io.Writer) error {
	v = termtext.All(v)
	lines := []string{"node-dns " + v.Version}
	if v.Commit != "" {
		commit := "commit " + v.Commit
		if v.Modified {
			commit += ", and changes"
		}
		lines = append(lines, commit)
	}
	lines = append(lines, v.Go)
	switch {
	case v.Daemon == "":
		lines = append(lines, "daemon: "+v.DaemonErr)
	case v.Differ():
		lines = append(lines, "daemon: "+v.Daemon, `! the running daemon has another version; run "systemctl restart node-dns" to start the installed one (no queries are lost)`)
	default:
		lines = append(lines, "daemon: "+v.Daemon)
	}
	_, err := fmt.Fprintln(w, strings.Join(lines, "\n"))
	return err
}
