package migrate

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/nodeconfig"
)

// TestKubeletEdited proves that the edited file has the intended value for the kubelet's own parser
// and keeps all other lines.
func TestKubeletEdited(t *testing.T) {
	const head = "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\n"
	for _, test := range []struct{ name, path, text, want string }{
		{"no setting", kubeletFile, head + "clusterDNS: [10.0.0.7] # ours\n", head + "clusterDNS: [10.0.0.7] # ours\nresolvConf: /etc/origin/node/resolv.conf\n"},
		{"another setting", kubeletFile, head + "resolvConf: /etc/resolv.conf\nmaxPods: 5\n", head + "resolvConf: /etc/origin/node/resolv.conf\nmaxPods: 5\n"},
		{"JSON", kubeletFile, "{\"kind\": \"KubeletConfiguration\"}\n", "set it by hand: resolvConf in /var/lib/kubelet/config.yaml"},
		{"no file", kubeletFile, "", "does not exist"},
		{"a drop-in", "/etc/kubelet.d/" + kubeletDropIn, "", "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\nresolvConf: /etc/origin/node/resolv.conf\n"},
		{"OpenShift 3 without arguments", nodeConfigFile, "dnsIP: 0.0.0.0\n", "dnsIP: 0.0.0.0\nkubeletArguments:\n  resolv-conf:\n  - /etc/origin/node/resolv.conf\n"},
		{"with others", nodeConfigFile, "kubeletArguments:\n    node-labels:\n    - a=b\ndnsIP: 0.0.0.0\n", "kubeletArguments:\n    resolv-conf:\n    - /etc/origin/node/resolv.conf\n    node-labels:\n    - a=b\ndnsIP: 0.0.0.0\n"},
		{"with another one", nodeConfigFile, "kubeletArguments:\n  node-labels:\n  - a=b\n  resolv-conf:\n  - /etc/resolv.conf\n", "kubeletArguments:\n  node-labels:\n  - a=b\n  resolv-conf:\n  - /etc/origin/node/resolv.conf\n"},
		{"in one line", nodeConfigFile, "kubeletArguments: {resolv-conf: [/etc/resolv.conf]}\n", "set it by hand: kubeletArguments: {resolv-conf: [FILE]} in /etc/origin/node/node-config.yaml"},
		// This once wrote the key twice.
		{"a blank line and comments between", nodeConfigFile, "kubeletArguments:\n\n# ours\n  node-labels:\n  - a=b\n\n# DNS\n  resolv-conf:\n# the host's\n  - /etc/resolv.conf\n", "kubeletArguments:\n\n# ours\n  node-labels:\n  - a=b\n\n# DNS\n  resolv-conf:\n# the host's\n  - /etc/origin/node/resolv.conf\n"},
		{"an argument in quotes", nodeConfigFile, "kubeletArguments:\n  'resolv-conf':\n  - /etc/resolv.conf\n", "set it by hand: kubeletArguments"},
		{"a key in quotes", kubeletFile, head + "\"resolvConf\": /etc/resolv.conf\n", "set it by hand: resolvConf"},
		{"arguments in quotes", nodeConfigFile, "\"kubeletArguments\":\n  resolv-conf:\n  - /etc/resolv.conf\n", "set it by hand: kubeletArguments"},
		// The kubelet uses the last one.
		{"two values", nodeConfigFile, "kubeletArguments:\n  resolv-conf:\n  - /etc/resolv.conf\n  - /run/resolv.conf\n", "it has several values"},
		{"a comment that looks like it", nodeConfigFile, "kubeletArguments:\n  node-labels:\n  - a=b\n  # resolv-conf:\n  # - /etc/resolv.conf\ndnsIP: 0.0.0.0\n", "kubeletArguments:\n  resolv-conf:\n  - /etc/origin/node/resolv.conf\n  node-labels:\n  - a=b\n  # resolv-conf:\n  # - /etc/resolv.conf\ndnsIP: 0.0.0.0\n"},
		{"no list", nodeConfigFile, "kubeletArguments:\n  resolv-conf:\n  node-labels:\n  - a=b\n", "set it by hand: kubeletArguments"},
		{"another document", kubeletFile, head + "---\nkind: Other\n", "set it by hand: resolvConf"},
	} {
		k := Kubelet{Wanted: true, Path: test.path}
		if test.text != "" {
			k.File = file(test.text)
		}
		got, err := k.edited()
		if err != nil {
			if !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: got %v", test.name, err)
			}
			continue
		}
		if got != test.want {
			t.Errorf("%s: got\n%s\nwant\n%s", test.name, got, test.want)
		}
		root := t.TempDir()
		paths := nodeconfig.DefaultPaths(root)
		path := paths.Kubelet
		if test.path == nodeConfigFile {
			path = paths.NodeConfig
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		if c, err := nodeconfig.Load(paths); err != nil || !strings.HasSuffix(c.KubeletResolvConf, "/etc/origin/node/resolv.conf") {
			t.Errorf("%s: read back: %q, %v", test.name, c.KubeletResolvConf, err)
		}
	}
}

// TestUndoForKubelet: a kubelet that was pointed to the node resolv.conf keeps the path in memory
// until it restarts. The undo removed the file, and the kubelet could not start pods. The file must
// be kept even if the migration is killed at any moment.
func TestUndoForKubelet(t *testing.T) {
	t.Parallel()
	const was, read = "kind: KubeletConfiguration\n", "of step start\n"
	kept := keptLine + "\n" + read
	for _, test := range []struct {
		name   string
		before string // node resolv.conf; empty if there is none
		killed string // moment at which the migration is killed; empty for never
		after  string
	}{
		{name: "it did not exist", after: kept},
		{name: "it was there", before: "nameserver 192.0.2.1\n", after: keptLine + "\nnameserver 192.0.2.1\n"},
		{name: "before the kubelet was configured", killed: "after start"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			for moment, more := 0, true; more; moment++ {
				a := Applier{root: t.TempDir(), other: onPaper{}}
				writeTree(t, a.root)
				told := ""
				a.Tell = func(sentence string) { told = sentence }
				if err := a.rewrite(kubeletFile, was); err != nil {
					t.Fatal(err)
				}
				if test.before != "" {
					if err := a.rewrite(nodeResolvConf, test.before); err != nil {
						t.Fatal(err)
					}
				}
				host := node(hook, dnsmasqAt("10.0.0.7"), func(h *Host) { h.Kubelet = Kubelet{Wanted: true, Path: kubeletFile, File: file(was)} })
				plan := NewPlan(host, Find(host))
				for i := range plan.Steps {
					plan.Steps[i].At = nil // no nameserver is queried
				}
				dying := a
				dying.Step = func(name string) {
					if name == test.killed {
						panic(killed{})
					}
				}
				func() {
					defer func() {
						if r := recover(); r != nil && r != (killed{}) {
							panic(r)
						}
					}()
					if err := dying.Apply(t.Context(), plan); err != nil {
						t.Fatal(err)
					}
				}()
				undo := func(a Applier) error {
					j, err := ReadJournal(a.root)
					if err != nil || j == nil {
						return err
					}
					return a.Undo(t.Context(), j)
				}
				var err error
				_, more, err = until(moment, a, undo)
				if err := errors.Join(err, undo(a)); err != nil {
					t.Fatal(err)
				}
				got, _ := os.ReadFile(filepath.Join(a.root, nodeResolvConf)) // empty if it is gone
				if string(got) != test.after {
					t.Errorf("got node resolv.conf %q, want %q", got, test.after)
				}
				if text, err := os.ReadFile(filepath.Join(a.root, kubeletFile)); string(text) != was {
					t.Errorf("got kubelet file %q, %v", text, err)
				}
				if (told == stillRead) != (test.after != "") {
					t.Errorf("got last message %s", told)
				}
			}
		})
	}
}
