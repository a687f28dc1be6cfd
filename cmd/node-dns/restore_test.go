package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/hostdns"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// TestRestoreForOthers: without write permission, the error says who has it and nothing changes.
func TestRestoreForOthers(t *testing.T) {
	if os.Geteuid() != 0 {
		lab.Skip(t, "only root can become another user")
	}
	root := lab.OpenDir(t)
	paths := hostdns.NewPaths(root)
	text := hostdns.Watermark + "\nnameserver 198.51.100.7\n"
	for path, data := range map[string]string{paths.ResolvConf: text, paths.Original: "nameserver 192.0.2.53\n"} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	var out bytes.Buffer
	lab.AsNobody(func() {
		cmd := newRootCommand()
		cmd.SetArgs([]string{"--root", root, "restore"})
		cmd.SetOut(&out)
		err = cmd.ExecuteContext(t.Context())
	})
	if err == nil || !strings.Contains(err.Error(), "permission denied") || !strings.Contains(err.Error(), "requires root") {
		t.Errorf("%v\n%s", err, &out)
	}
	if got, err := os.ReadFile(paths.ResolvConf); err != nil || string(got) != text {
		t.Errorf("%v: %q", err, got)
	}
}
