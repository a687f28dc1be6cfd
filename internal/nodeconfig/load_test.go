package nodeconfig

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestLoad tests which files are read, in which order, and which one wins. Files have their names
// in Paths.
func TestLoad(t *testing.T) {
	const nodeConfig, bootstrap, kubelet, nodeDNS = "NodeConfig", "Bootstrap", "Kubelet", "NodeDNS"
	tests := []struct {
		name   string
		files  map[string]string
		read   []string
		domain string
		faults []string
	}{
		{name: "no files", domain: "cluster.local."},
		{
			name:   "node-config takes precedence",
			files:  map[string]string{nodeConfig: "dnsDomain: a.example", bootstrap: "dnsDomain: b.example", kubelet: "clusterDomain: c.example"},
			read:   []string{nodeConfig},
			domain: "a.example.",
		},
		{
			name:   "empty node-config",
			files:  map[string]string{nodeConfig: "", bootstrap: "dnsDomain: b.example"},
			read:   []string{nodeConfig},
			domain: "cluster.local.",
		},
		{
			name:   "bootstrap config before the sync pod writes node-config",
			files:  map[string]string{bootstrap: "kind: NodeConfig\ndnsDomain: b.example", kubelet: "clusterDomain: c.example"},
			read:   []string{bootstrap},
			domain: "b.example.",
		},
		{
			name:   "not OpenShift 3",
			files:  map[string]string{kubelet: "clusterDomain: c.example"},
			read:   []string{kubelet},
			domain: "c.example.",
		},
		{
			name:   "node-dns.yaml alone",
			files:  map[string]string{nodeDNS: "clusterDomain: d.example"},
			read:   []string{nodeDNS},
			domain: "d.example.",
		},
		{
			name:   "node-dns.yaml wins over a kubelet argument",
			files:  map[string]string{nodeConfig: "kubeletArguments: {cluster-domain: [a.example]}", nodeDNS: "clusterDomain: d.example"},
			read:   []string{nodeConfig, nodeDNS},
			domain: "d.example.",
		},
		{
			name:   "errors in two files keep the valid values",
			files:  map[string]string{nodeConfig: "dnsDomain: a.example\ndnsIP: x\nnodeIP: y", nodeDNS: "cacheSize: z"},
			read:   []string{nodeConfig, nodeDNS},
			domain: "a.example.",
			faults: []string{"NodeConfig:2:8", "NodeConfig:3:9", "NodeDNS:1:12"},
		},
		{
			name:   "invalid node-config does not fall back",
			files:  map[string]string{nodeConfig: "dnsDomain: [", bootstrap: "dnsDomain: b.example"},
			read:   []string{nodeConfig},
			faults: []string{"NodeConfig:1:12"},
		},
		{
			name:   "invalid domain does not fall back",
			files:  map[string]string{nodeConfig: "dnsDomain: a..example"},
			read:   []string{nodeConfig},
			faults: []string{"NodeConfig:1:12"},
		},
		{
			name:   "invalid kubelet argument does not fall back to dnsDomain",
			files:  map[string]string{nodeConfig: "dnsDomain: a.example\nkubeletArguments: {cluster-domain: [b..example]}"},
			read:   []string{nodeConfig},
			faults: []string{"NodeConfig:2:37"},
		},
		{
			name:   "kubeletArguments is not a mapping",
			files:  map[string]string{nodeConfig: "dnsDomain: a.example\nkubeletArguments: [cluster-domain]"},
			read:   []string{nodeConfig},
			faults: []string{"NodeConfig:2:19"},
		},
		{
			name:   "invalid merge key",
			files:  map[string]string{kubelet: "<<: 1"},
			read:   []string{kubelet},
			faults: []string{"Kubelet:1:5"},
		},
		{
			name:   "wrong kind",
			files:  map[string]string{kubelet: "kind: Config\nclusterDomain: c.example"},
			read:   []string{kubelet},
			faults: []string{"Kubelet:1:7"},
		},
		{
			name:   "errors in other keys keep the default",
			files:  map[string]string{nodeConfig: "dnsIP: x\nkubeletArguments: {node-ip: [x]}"},
			read:   []string{nodeConfig},
			domain: "cluster.local.",
			faults: []string{"NodeConfig:1:8", "NodeConfig:2:30"},
		},
		{
			name:   "valid node-dns.yaml, invalid cluster file",
			files:  map[string]string{kubelet: "clusterDomain: [", nodeDNS: "clusterDomain: d.example"},
			read:   []string{kubelet, nodeDNS},
			domain: "d.example.",
			faults: []string{"Kubelet:1:16"},
		},
		{
			name:   "invalid node-dns.yaml, valid cluster file",
			files:  map[string]string{kubelet: "clusterDomain: c.example", nodeDNS: "clusterDomain: ["},
			read:   []string{kubelet, nodeDNS},
			domain: "c.example.",
			faults: []string{"NodeDNS:1:16"},
		},
		{
			name:   "invalid node-dns.yaml alone",
			files:  map[string]string{nodeDNS: "cacheSize: 5\nclusterDomain: d..example"},
			read:   []string{nodeDNS},
			faults: []string{"NodeDNS:2:16"},
		},
		{
			name:   "node-dns.yaml alone, misspelled key",
			files:  map[string]string{nodeDNS: "clusterdomain: d.example"},
			read:   []string{nodeDNS},
			faults: []string{"NodeDNS:1:1"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			for name, text := range tt.files {
				write(t, pathOf(root, name), text)
			}
			c, err := Load(DefaultPaths(root))
			checkConfig(t, c, err)
			checkError(t, err)
			var read, faults []string
			for _, file := range c.Files {
				read = append(read, nameOf(root, file))
			}
			for _, f := range Faults(err) {
				place, _, _ := strings.Cut(f.Error(), ": ")
				faults = append(faults, nameOf(root, f.File)+strings.TrimPrefix(place, f.File))
			}
			if diff := cmp.Diff(tt.read, read); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.faults, faults); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
			if got := c.ClusterDomain.String(); got != tt.domain {
				t.Errorf("cluster domain %s, want %s", got, tt.domain)
			}
		})
	}
}

func byName(root string) map[string]string {
	p := DefaultPaths(root)
	return map[string]string{"NodeConfig": p.NodeConfig, "Bootstrap": p.Bootstrap, "Kubelet": p.Kubelet, "NodeDNS": p.NodeDNS, "Facts": p.Facts}
}

func pathOf(root, name string) string { return byName(root)[name] }

func nameOf(root, path string) string {
	for name, p := range byName(root) {
		if p == path {
			return name
		}
	}
	return path
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestDefaultPaths(t *testing.T) {
	want := Paths{
		NodeConfig: "/etc/origin/node/node-config.yaml",
		Bootstrap:  "/etc/origin/node/bootstrap-node-config.yaml",
		Kubelet:    "/var/lib/kubelet/config.yaml",
		NodeDNS:    "/etc/node-dns/node-dns.yaml",
		Facts:      "/var/lib/node-dns/node-config.json",
		Kubeconfig: "/etc/node-dns/kubeconfig",
		Handover:   "/var/lib/node-dns/kubeconfig",
	}
	if got := DefaultPaths(""); got != want {
		t.Errorf("got %+v", got)
	}
	if got := DefaultPaths("rel").NodeDNS; got != "rel/etc/node-dns/node-dns.yaml" {
		t.Errorf("a relative root must be relative to the working directory, got %s", got)
	}
}

// TestLoadRoot: the root also applies to paths in the files.
func TestLoadRoot(t *testing.T) {
	root := t.TempDir()
	write(t, pathOf(root, "NodeConfig"),
		"dnsRecursiveResolvConf: /etc/origin/node/resolv.conf\nmasterKubeConfig: node.kubeconfig\nkubeletArguments: {resolv-conf: [run/resolv.conf]}\n")
	c, err := Load(DefaultPaths(root))
	if err != nil {
		t.Fatal(err)
	}
	got := []string{c.DNSRecursiveResolvConf, c.MasterKubeConfig, c.KubeletResolvConf}
	want := []string{root + "/etc/origin/node/resolv.conf", root + "/etc/origin/node/node.kubeconfig", root + "/run/resolv.conf"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestLoadUnreadable: an existing file that cannot be read is an error, unlike a missing one.
func TestLoadUnreadable(t *testing.T) {
	t.Run("directory", func(t *testing.T) {
		root := t.TempDir()
		write(t, pathOf(root, "NodeConfig")+"/x", "")
		write(t, pathOf(root, "Bootstrap"), "dnsDomain: b.example")
		c, err := Load(DefaultPaths(root))
		if err == nil || !strings.HasPrefix(err.Error(), "reading node-config: ") || len(Faults(err)) != 0 {
			t.Errorf("got %v", err)
		}
		if !c.ClusterDomain.IsZero() {
			t.Errorf("got the cluster domain %s, want none", c.ClusterDomain)
		}
	})
	t.Run("below a file", func(t *testing.T) {
		root := t.TempDir()
		write(t, filepath.Join(root, "etc"), "")
		if _, err := Load(DefaultPaths(root)); err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("dangling link", func(t *testing.T) {
		root := t.TempDir()
		write(t, pathOf(root, "Bootstrap"), "dnsDomain: b.example")
		if err := os.Symlink("nowhere", pathOf(root, "NodeConfig")); err != nil {
			t.Fatal(err)
		}
		c, err := Load(DefaultPaths(root))
		if err != nil || c.ClusterDomain.String() != "b.example." {
			t.Errorf("got %s, %v", c.ClusterDomain, err)
		}
	})
}
