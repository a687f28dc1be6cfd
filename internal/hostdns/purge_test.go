package hostdns

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// everything lists all paths below a tree's root, including directories.
func (w *tree) everything() []string {
	w.t.Helper()
	var all []string
	err := filepath.WalkDir(w.root, func(path string, _ fs.DirEntry, err error) error {
		all = append(all, w.paths.host(path))
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return all
}

// TestPurge: after the use of node-dns and a purge, the host's files are the same as before.
func TestPurge(t *testing.T) {
	const node = "/etc/origin/node/resolv.conf"
	kept := []string{"/etc/origin", "/etc/origin/node", node}
	for _, test := range []struct {
		name      string
		files     map[string]string // before node-dns
		servers   string            // NetworkManager's servers; "" means sys
		meanwhile string            // content of node by then; "" means what the hook wrote
		left      []string          // paths that other programs may rely on
		log       string            // the logged reason
	}{
		{name: "a plain host"},
		{name: "upstreams of the admin's own", files: map[string]string{"/etc/node-dns/node-dns.yaml": "upstreams: [10.9.9.9]\n"}},
		{
			name: "dnsmasq's directory has more", files: map[string]string{"/etc/dnsmasq.d/origin-dns.conf": "no-resolv\n"},
			left: []string{"/etc/dnsmasq.d/origin-upstream-dns.conf"},
		},
		{
			name: "dnsmasq reads its directory", files: map[string]string{"/etc/dnsmasq.conf": "# none\nconf-dir = /etc/dnsmasq.d/,.rpmnew,.rpmsave\n"},
			left: []string{"/etc/dnsmasq.d/origin-upstream-dns.conf"},
		},
		{name: "dnsmasq reads another one", files: map[string]string{"/etc/dnsmasq.conf": "#conf-dir=/etc/dnsmasq.d\nconf-dir=/etc/other.d\n"}},
		{
			name: "an OpenShift node", files: map[string]string{"/etc/origin/node/node-config.yaml": "dnsDomain: cluster.local\n"},
			left: []string{"/etc/origin/node/resolv.conf"},
		},
		{
			name: "a kubelet that names it", files: map[string]string{"/var/lib/kubelet/config.yaml": "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\nresolvConf: /etc/origin/node/resolv.conf\n"},
			left: kept, log: "kept /etc/origin/node/resolv.conf: /var/lib/kubelet/config.yaml names it",
		},
		// Only /var/lib/kubelet/config.yaml and node-config.yaml counted, so the file was removed
		// and the kubelet started no more pods.
		{
			name: "OpenShift 4's kubelet", files: map[string]string{"/etc/kubernetes/kubelet.conf": `{"kind": "KubeletConfiguration", "resolvConf": "/etc/origin/node/resolv.conf"}`},
			left: kept, log: "/etc/kubernetes/kubelet.conf names it",
		},
		{
			name: "a drop-in", files: map[string]string{"/etc/kubernetes/kubelet.conf.d/99-node-dns.conf": "resolvConf: /etc/origin/node/resolv.conf\n"},
			left: kept, log: "/etc/kubernetes/kubelet.conf.d/99-node-dns.conf names it",
		},
		{
			name: "a flag of the unit", files: map[string]string{"/etc/systemd/system/kubelet.service.d/dns.conf": "[Service]\nEnvironment=KUBELET_EXTRA_ARGS=--resolv-conf=/etc/origin/node/resolv.conf\n"},
			left: kept, log: "/etc/systemd/system/kubelet.service.d/dns.conf names it",
		},
		{
			name: "microk8s", files: map[string]string{"/var/snap/microk8s/current/args/kubelet": "--resolv-conf=/etc/origin/node/resolv.conf\n"},
			left: kept, log: "/var/snap/microk8s/current/args/kubelet names it",
		},
		{
			name: "a flag of the running kubelet", files: map[string]string{"/proc/812/comm": "kubelet\n", "/proc/812/cmdline": "kubelet\x00--resolv-conf\x00/etc/origin/node/resolv.conf\x00"},
			left: kept, log: "the command line of kubelet, pid 812, names it",
		},
		{
			name: "a file that the running kubelet reads", files: map[string]string{
				"/proc/812/comm": "hyperkube\n", "/proc/812/cmdline": "hyperkube\x00kubelet\x00--config=srv/kubelet.yaml\x00", "/srv/kubelet.yaml": "resolvConf: /etc/origin/node/resolv.conf\n",
			},
			left: kept, log: "/srv/kubelet.yaml names it",
		},
		{
			name: "a drop-in that the running kubelet reads", files: map[string]string{
				"/proc/812/comm": "kubelet\n", "/proc/812/cmdline": "kubelet\x00--config-dir=/srv/kubelet.d\x00", "/srv/kubelet.d/a/99-node-dns.conf": "resolvConf: /etc/origin/node/resolv.conf\n",
			},
			left: kept, log: "/srv/kubelet.d/a/99-node-dns.conf names it",
		},
		{
			name: "a configuration that cannot be read", files: map[string]string{"/etc/kubernetes/kubelet.conf": "-> .", "/etc/kubernetes/other": ""},
			left: kept, log: "cannot read /etc/kubernetes/kubelet.conf",
		},
		{name: "a kubelet that names another file", files: map[string]string{
			"/etc/kubernetes/kubelet.conf": "resolvConf: /etc/resolv.conf\n", "/proc/812/comm": "kubelet\n", "/proc/812/cmdline": "kubelet\x00--config=/etc/kubernetes/kubelet.conf\x00",
		}},
		{name: "a process that is not a kubelet", files: map[string]string{"/proc/812/comm": "vi\n", "/proc/812/cmdline": "vi\x00/etc/origin/node/resolv.conf\x00"}},
		// The upstream file holds a comment in this case, but was compared with an empty file.
		{name: "nameservers over TLS only", servers: "dns+tls://9.9.9.9#dns.quad9.net"},
		// The hook edits lines in place.
		{name: "lines in another order", meanwhile: "search example.com\nnameserver 10.0.0.2\nnameserver 10.0.0.3\n"},
		// The purge removed the only copy of the hook and the settings from before the migration.
		{
			name: "a migration that was not undone", files: map[string]string{"/var/lib/node-dns/migration.json": "{}"},
			log: "install node-dns again and run node-dns migrate --undo",
		},
		{name: "a line of the admin's", meanwhile: "# mine\nnameserver 10.0.0.2\nnameserver 10.0.0.3\nsearch example.com\n", left: kept},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newTree(t, test.files)
			w.put("/etc/resolv.conf", generated)
			w.put("/run/NetworkManager/resolv.conf", generated)
			w.remove(filepath.Dir(varSnapshot))
			w.put("/etc/node-dns/kubeconfig", "") // there is a cluster
			w.mkdir("/var/lib")
			w.snapshot = host(withNetworkManager(dnsConfig("eth0", cmp.Or(test.servers, sys), "example.com"))).NetworkManager
			if _, ok := test.files["/etc/origin/node/node-config.yaml"]; !ok {
				w.remove("/etc/origin")
			}
			before, text := w.everything(), w.files()
			w.put("/run/node-dns/ready", "")
			w.put("/var/cache/node-dns/cluster.snapshot", "x")
			w.apply()
			w.put("/etc/resolv.conf", "nameserver 192.0.2.1\n") // this creates a history
			w.apply()
			if test.meanwhile != "" {
				w.put(node, test.meanwhile)
			}
			w.silent = true
			w.log.Reset()
			if _, result, err := w.runner().Purge(t.Context(), true); err != nil || result.ResolvConf != Restored {
				t.Errorf("%s, %v", result.ResolvConf, err)
			}
			if log := w.log.String(); !strings.Contains(log, test.log) || strings.Contains(log, "kept /") != (test.log != "") {
				t.Errorf("logged %s, want %q", log, test.log)
			}
			want := slices.Sorted(slices.Values(append(before, test.left...)))
			if got := slices.Sorted(slices.Values(w.everything())); !slices.Equal(got, want) {
				t.Errorf("got the paths %q, want %q", got, want)
			}
			after := w.files()
			maps.DeleteFunc(after, func(path, _ string) bool { return slices.Contains(test.left, path) })
			wantSame(t, "contents", text, after)
			if _, _, err := w.runner().Purge(t.Context(), true); err != nil {
				t.Errorf("the second time: %v", err)
			}
		})
	}
}

// TestNoPurge: if resolv.conf cannot be restored or node-dns runs, a purge removes no more than a
// restore does.
func TestNoPurge(t *testing.T) {
	for _, test := range []struct {
		name  string
		spoil func(w *tree)
		want  string
	}{
		{"node-dns runs", func(w *tree) {}, "not purged: node-dns is running"},
		{"nothing to go back to", func(w *tree) {
			w.silent = true
			w.remove("/var/lib/node-dns/resolv.conf.orig")
			w.remove("/var/lib/node-dns/upstreams.json")
			w.remove("/etc/dnsmasq.d/origin-upstream-dns.conf")
			w.remove("/etc/origin/node/resolv.conf")
		}, "not purged: /etc/resolv.conf still names this node"},
		{"resolv.conf cannot be written", func(w *tree) {
			w.silent = true
			w.mkdir("/etc/.resolv.conf.node-dns-tmp")
		}, "not purged: /etc/resolv.conf still names this node"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newTree(t, map[string]string{"/etc/resolv.conf": generated})
			w.apply()
			w.put("/var/lib/node-dns/kept", "")
			test.spoil(w)
			_, _, err := w.runner().Purge(t.Context(), true)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
			if _, err := os.Lstat(w.at("/var/lib/node-dns/kept")); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestPurgeLeavesLinksAlone: the daemon's directories belong to an unprivileged user, who may
// create links there.
func TestPurgeLeavesLinksAlone(t *testing.T) {
	w := newTree(t, map[string]string{"/etc/resolv.conf": generated, "/etc/secret/file": "x", "/run/node-dns/link": "-> ../../etc/secret"})
	w.remove("/var/cache/node-dns")
	w.put("/var/cache/node-dns", "-> ../../etc/secret")
	w.silent = true
	if _, _, err := w.runner().Purge(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	if w.read("/etc/secret/file") != "x" || slices.Contains(w.everything(), "/run/node-dns") || slices.Contains(w.everything(), "/var/cache/node-dns") {
		t.Errorf("got the remaining paths %q", w.everything())
	}
}

// TestPurgeEnds: removing the files of a compromised daemon may take longer than a run has time
// for. The purge ends in time and says what it did not remove, and the next run continues.
func TestPurgeEnds(t *testing.T) {
	w := newTree(t, nil)
	deep := "/run/node-dns"
	for range 50 {
		deep += "/d"
	}
	w.mkdir(deep)
	for i := range 2500 {
		w.put(fmt.Sprintf("/run/node-dns/apply/%d", i), "")
	}
	w.put("/run/node-dns/apply/link", "-> ../../../etc")
	w.put("/etc/kept", "x")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	path := w.at("/run/node-dns")
	if _, err := removeAll(ctx, path); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), path) {
		t.Errorf("at the deadline: got %v", err)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Error(err)
	}
	for _, want := range []bool{true, false} {
		if got, err := removeAll(t.Context(), path); got != want || err != nil {
			t.Errorf("removed %v, %v", got, err)
		}
	}
	if w.read("/etc/kept") != "x" {
		t.Error("files outside the tree were removed")
	}
}

// TestPurgeLog: a purge logs one line, that of its restore.
func TestPurgeLog(t *testing.T) {
	w := newTree(t, map[string]string{"/etc/resolv.conf": oursText, "/var/lib/node-dns/resolv.conf.orig": generated})
	w.silent = true
	if _, _, err := w.runner().Purge(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	if log := w.log.String(); strings.Count(log, "\n") != 1 || !strings.Contains(log, "event=restore") || !strings.Contains(log, "/var/lib/node-dns") {
		t.Errorf("logged %s", log)
	}
}
