package hostdns

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/node-dns/node-dns/internal/netstate"
	"github.com/node-dns/node-dns/internal/nm"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// tree is a host on disk with host's network, no NetworkManager, an answering local nameserver, and
// these files.
type tree struct {
	t        *testing.T
	root     string
	paths    Paths
	snapshot *nm.Snapshot // nil if NetworkManager does not run
	silent   bool         // the local nameserver does not answer
	version  string       // the local nameserver's own name
	told     int          // how often NetworkManager was told to reload
	deaf     error        // why that fails; nil if it works
	resolved int          // the same for systemd-resolved
	resDeaf  error        // why that fails; nil if it works
	links    string       // the links' part of the uplinks file
	log      bytes.Buffer
}

// varSnapshot shows that there was a cluster. newTree creates it.
const varSnapshot = "/var/cache/node-dns/cluster.snapshot"

// newTree creates OpenShift's directories, and files by their paths on the host. "-> target" is a
// link.
func newTree(t *testing.T, files map[string]string) *tree {
	t.Helper()
	root := lab.OpenDir(t)
	w := &tree{t: t, root: root, paths: NewPaths(root), version: "node-dns 1.0"}
	for _, dir := range []string{"/etc/dnsmasq.d", "/etc/origin/node", "/run"} {
		w.mkdir(dir)
	}
	w.put(varSnapshot, "x")
	for path, text := range files {
		w.put(path, text)
	}
	return w
}

func (w *tree) at(path string) string { return filepath.Join(w.root, path) }

func (w *tree) mkdir(path string) {
	w.t.Helper()
	if err := os.MkdirAll(w.at(path), 0o755); err != nil {
		w.t.Fatal(err)
	}
}

func (w *tree) put(path, text string) {
	w.t.Helper()
	w.mkdir(filepath.Dir(path))
	var err error
	if target, ok := strings.CutPrefix(text, "-> "); ok {
		err = os.Symlink(target, w.at(path))
	} else {
		err = os.WriteFile(w.at(path), []byte(text), 0o644)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *tree) chmod(path string, mode fs.FileMode) {
	w.t.Helper()
	if err := os.Chmod(w.at(path), mode); err != nil {
		w.t.Fatal(err)
	}
}

func (w *tree) remove(path string) {
	w.t.Helper()
	if err := os.RemoveAll(w.at(path)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *tree) read(path string) string {
	w.t.Helper()
	text, err := os.ReadFile(w.at(path))
	if err != nil {
		w.t.Fatal(err)
	}
	return string(text)
}

var errNoAnswer = errors.New("192.168.122.50:53 does not answer: i/o timeout")

// runner looks only at the tree, not at the machine that runs the test.
func (w *tree) runner() Runner {
	return Runner{
		Looker: Looker{
			Paths: w.paths,
			NetworkManager: func(context.Context) (nm.Snapshot, error) {
				if w.snapshot == nil {
					return nm.Snapshot{}, nm.ErrNotRunning
				}
				return *w.snapshot, nil
			},
			Net: func(context.Context) (netstate.State, error) { return host().Net, nil },
		},
		Applier: Applier{
			Answers: func(context.Context, netip.AddrPort, bool) (string, error) {
				if w.silent {
					return "", errNoAnswer
				}
				return w.version, nil
			},
			TellNetworkManager: w.tell,
			TellResolved:       w.tellResolved,
			RenewResolvConf:    func(context.Context) error { return nil },
		},
		Log: slog.New(slog.NewTextHandler(&w.log, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}})),
	}
}

// tell makes the fake NetworkManager read the snippet.
func (w *tree) tell(context.Context) error {
	if w.told++; w.deaf != nil || w.snapshot == nil {
		return w.deaf
	}
	before := w.snapshot.RcManager
	w.snapshot.RcManager = "symlink"
	if _, err := os.Stat(w.paths.Snippet); err == nil {
		w.snapshot.RcManager = "unmanaged"
	} else if before == "unmanaged" { // it writes its file at once, even an empty one (seen with 1.42.4)
		w.remove(etcResolvConf)
		w.put(etcResolvConf, w.read("/run/NetworkManager/resolv.conf"))
	}
	return nil
}

// apply is a whole run that must succeed.
func (w *tree) apply() Result {
	w.t.Helper()
	_, result, err := w.runner().Apply(w.t.Context(), nm.Event{Action: "apply"})
	if err != nil {
		w.t.Fatal(err)
	}
	return result
}

func (w *tree) restore(ifOurs bool) Result {
	w.t.Helper()
	_, result, err := w.runner().Restore(w.t.Context(), ifOurs)
	if err != nil {
		w.t.Fatal(err)
	}
	return result
}

// written returns the paths of a result as the host sees them.
func (w *tree) written(r Result) string {
	var list []string
	for _, path := range r.Written {
		list = append(list, w.paths.host(path))
	}
	return strings.Join(list, " ")
}

// files returns the content and mode, or the link target, of every file in the tree except the lock
// and the history of rewrites.
func (w *tree) files() map[string]string {
	w.t.Helper()
	return w.walk(func(path string, info fs.FileInfo) string {
		if info.Mode()&fs.ModeSymlink != 0 {
			target, err := os.Readlink(path)
			if err != nil {
				w.t.Fatal(err)
			}
			return "-> " + target
		}
		text, err := os.ReadFile(path)
		if err != nil {
			w.t.Fatal(err)
		}
		return fmt.Sprintf("%v %s", info.Mode().Perm(), text)
	})
}

// identities change whenever a file is written or replaced, even with the same content.
func (w *tree) identities() map[string]string {
	w.t.Helper()
	return w.walk(func(_ string, info fs.FileInfo) string {
		st := info.Sys().(*syscall.Stat_t)
		return fmt.Sprint(st.Ino, st.Mtim, st.Ctim)
	})
}

func (w *tree) walk(describe func(path string, info fs.FileInfo) string) map[string]string {
	w.t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(w.root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path == w.paths.Lock || path == w.paths.Rewrites {
			return err
		}
		info, err := d.Info()
		if err == nil {
			all[w.paths.host(path)] = describe(path, info)
		}
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return all
}

func wantSame(t *testing.T, what string, want, got map[string]string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}
