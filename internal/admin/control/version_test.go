package control

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// TestRevision proves that the revision is one word that marks a modified tree.
func TestRevision(t *testing.T) {
	for name, test := range map[string]struct {
		v    Versions
		want string
	}{
		"commit":         {Versions{Commit: "abc"}, "abc"},
		"changes":        {Versions{Commit: "abc", Modified: true}, "abc-dirty"},
		"not known":      {Versions{}, ""},
		"unknown suffix": {Versions{Modified: true}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.v.Revision(); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestVersions proves that an older daemon is reported and that a missing one is not an error.
func TestVersions(t *testing.T) {
	path := filepath.Join(lab.ShortDir(t), "control.sock")
	own := Versions{APIVersion: APIVersion, Kind: "Version", Version: "1.1.0", Commit: "abc", Modified: true, Go: "go1.25.0"}
	check := func(differ bool, want string) {
		t.Helper()
		v := own
		v.Ask(t.Context(), path)
		var out strings.Builder
		if err := v.WriteText(&out); err != nil || v.Differ() != differ || out.String() != want {
			t.Errorf("%v, differ %v:\n%s", err, v.Differ(), &out)
		}
	}
	const head = "node-dns 1.1.0\ncommit abc, and changes\ngo1.25.0\n"
	check(false, head+"daemon: node-dns is not running\n")

	listener, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	version := "1.0.0\x1b[2J"
	go func() {
		served <- Serve(ctx, listener, API{Status: func(context.Context) Status { return Status{Version: version} }})
	}()
	check(true, head+`daemon: 1.0.0\x1b[2J`+"\n! the running daemon has another version; run \"systemctl restart node-dns\" to start the installed one (no queries are lost)\n")
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
