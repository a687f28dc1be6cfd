package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/nodeconfig"
	"github.com/node-dns/node-dns/internal/test/kubetest"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// TestCheckConfigForOthers: a user who may not read node-config.yaml sees what is missing, and
// which source then applies.
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
		cmd.SetContext(t.Context())
		var err error
		lab.AsNobody(func() { err = checkConfig(cmd, root, paths) })
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
	check(paths.NodeConfig+": ok", paths.Facts+": settings from the cluster's file")

	write(paths.NodeConfig, "dnsDomain: other.test\n", 0o600)
	check("has changed since origin-dns-dispatcher read it: origin-dns-dispatcher apply, as root, reads it")
}

// TestCheckConfigDnsmasq: dnsmasq's files are part of the configuration.
func TestCheckConfigDnsmasq(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, "/etc/dnsmasq.d/site.conf")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	rows := []struct {
		text  string
		fails bool
		want  string
	}{
		{"server=192.0.2.1\nno-poll\n", false, path + ": ok\n"},
		{"dhcp-range=192.0.2.0,static\n", false, path + ":1: dhcp-range is not followed: node-dns has no DHCP: the package dnsmasq serves it"},
		{"enable-tftp\n", false, path + ":1: enable-tftp is not followed: node-dns has no TFTP: the package dnsmasq serves it"},
		{"enable-ra\n", false, path + ":1: enable-ra is not followed: node-dns has no router advertisements: use the package dnsmasq, with port=0, or radvd"},
		{"no-negcache\n", false, "no-negcache (" + path + ":1) makes node-dns query the upstreams every time for names that do not exist"},
		{"server=192.0.2.1\n  no-resolve\n", true, path + `:2:3: expected an option of dnsmasq (the nearest is no-resolv), got "no-resolve"`},
	}
	for _, row := range rows {
		if err := os.WriteFile(path, []byte(row.text), 0o644); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		cmd := &cobra.Command{}
		cmd.SetOut(&out)
		cmd.SetContext(t.Context())
		err := checkConfig(cmd, root, nodeconfig.DefaultPaths(root))
		if (err != nil) != row.fails || !strings.Contains(out.String(), row.want) || strings.Contains(out.String(), "all settings have their defaults") {
			t.Errorf("%q: %v\n%s", row.text, err, &out)
		}
	}
}

// TestCheckConfigRights queries an API server for permissions, each time with one missing. A
// missing permission used to exit with 0.
func TestCheckConfigRights(t *testing.T) {
	api := kubetest.NewServer(t)
	root := t.TempDir()
	kubeconfig := filepath.Join(root, "/etc/node-dns/kubeconfig")
	if err := os.MkdirAll(filepath.Dir(kubeconfig), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(kubeconfig, api.Kubeconfig(), 0o600); err != nil {
		t.Fatal(err)
	}
	check := func(fails bool, want string) {
		t.Helper()
		var out bytes.Buffer
		cmd := &cobra.Command{}
		cmd.SetOut(&out)
		cmd.SetContext(t.Context())
		if err := checkConfig(cmd, root, nodeconfig.DefaultPaths(root)); errors.Is(err, errShown) != fails {
			t.Errorf("error %v", err)
		}
		if want = kubeconfig + ": " + want + "\n"; !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
	check(false, "the Kubernetes API grants all required rights")
	api.Deny("watch", "endpointslices")
	check(true, "the Kubernetes API denies: watch endpointslices.discovery.k8s.io")
	api.Deny("list", "pods")
	check(true, "the Kubernetes API denies: list pods")
	var asJSON bytes.Buffer
	shown := &cobra.Command{}
	shown.SetOut(&asJSON)
	shown.SetContext(t.Context())
	addOutputFlag(shown)
	if err := shown.Flags().Set("output", "json"); err != nil {
		t.Fatal(err)
	}
	if err := checkConfig(shown, root, nodeconfig.DefaultPaths(root)); !errors.Is(err, errShown) {
		t.Error(err)
	}
	var read control.ConfigCheck
	if err := json.Unmarshal(asJSON.Bytes(), &read); err != nil || read.Kubeconfig != kubeconfig || len(read.MissingRights) != 2 ||
		!slices.Contains(read.MissingRights, "list pods") {
		t.Errorf("%v\n%s", err, &asJSON)
	}
	api.Close()
	var out bytes.Buffer
	cmd := &cobra.Command{}
	cmd.SetOut(&out)
	cmd.SetContext(t.Context())
	if err := checkConfig(cmd, root, nodeconfig.DefaultPaths(root)); err != nil || !strings.Contains(out.String(), "rights not checked") {
		t.Errorf("%v\n%s", err, &out)
	}
}
