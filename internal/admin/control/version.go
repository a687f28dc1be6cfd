package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/node-dns/node-dns/internal/sys/termtext"
)

// Versions are this program's, and the daemon's that runs.
type Versions struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Version    string `json:"version"`
	Commit     string `json:"commit,omitempty"` // "": it was built without a repository, and nobody said
	Modified   bool   `json:"modified,omitempty"`
	Go         string `json:"go"`
	Daemon     string `json:"daemon,omitempty"`      // "": DaemonErr says why it is not known
	DaemonErr  string `json:"daemonError,omitempty"` // "": it is known
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

// Differ reports whether the daemon is another version than this program.
func (v Versions) Differ() bool { return v.Daemon != "" && v.Daemon != v.Version }

// Dirty ends the revision of a tree with changes, as `git describe --dirty` has it.
const Dirty = "-dirty"

// Revision is the commit in one word, with what says that there were changes; "": it is not known.
func (v Versions) Revision() string {
	if v.Commit == "" || !v.Modified {
		return v.Commit
	}
	return v.Commit + Dirty
}

// WriteText prints what --version does, and then more.
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
		lines = append(lines, "daemon: "+v.Daemon, "! the daemon that runs is another version: systemctl restart node-dns takes the installed one, and no query is lost")
	default:
		lines = append(lines, "daemon: "+v.Daemon)
	}
	_, err := fmt.Fprintln(w, strings.Join(lines, "\n"))
	return err
}
