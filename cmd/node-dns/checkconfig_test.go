package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/node-dns/node-dns/internal/lab"
	"github.com/node-dns/node-dns/internal/nodeconfig"
)

// TestCheckConfigForOthers: who may not read node-config.yaml is told what is missing, and then whose word it is.
func TestCheckConfigForOthers(t *testing.T) {
	if os.Geteuid() != 0 {
		lab.Skip(t, "only root can read what is closed to all others")
	}
	root := lab.OpenDir(t)
	paths := nodeconfig.DefaultPaths(root)
	write := func(path, text string, mode os.FileMode) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	check := func(wants ...string) {
		t.Helper()
		var out bytes.Buffer
		cmd := &cobra.Command{}
		cmd.SetOut(&out)
		var err error
		lab.AsNobody(func() { err = checkConfig(cmd, paths) })
		if fails := strings.Contains(wants[0], "permission denied"); (err != nil) != fails {
			t.Errorf("error %v", err)
		}
		for _, want := range wants {
			if !strings.Contains(out.String(), want) {
				t.Errorf("no %q in\n%s", want, &out)
			}
		}
	}
	write(paths.NodeConfig, "dnsDomain: corp.test\n", 0o600)
	check("permission denied", `run "origin-dns-dispatcher apply" as root`)

	config, err := nodeconfig.Load(paths)
	if err != nil {
		t.Fatal(err)
	}
	write(paths.Facts, string(config.Facts.Bytes()), 0o644)
	check(paths.NodeConfig+": ok", paths.Facts+": what the cluster's file says")

	write(paths.NodeConfig, "dnsDomain: other.test\n", 0o600)
	check("has changed since origin-dns-dispatcher read it: origin-dns-dispatcher apply, as root, reads it")
}
