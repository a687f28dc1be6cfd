package hostdns

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/nm"
)

// withConf sets the content of NetworkManager's configuration files; without it that is unknown.
func withConf(c nm.Conf) option { return func(s *State) { s.NetworkManagerSays = &c } }

// withSnippet is our snippet, as an earlier run wrote it.
func withSnippet() option { return func(s *State) { s.Snippet = file(Snippet) } }

func says(dns, rcManager string) option {
	c := nm.Conf{}
	if dns != "" {
		c.DNS = nm.Setting{Value: dns, File: "/etc/NetworkManager/NetworkManager.conf"}
	}
	if rcManager != "" {
		c.RcManager = nm.Setting{Value: rcManager, File: "/etc/NetworkManager/NetworkManager.conf"}
	}
	return withConf(c)
}

func TestShield(t *testing.T) {
	running := withNetworkManager(dnsConfig("eth0", sys, "example.com"))
	with := func(options ...option) []option {
		return append([]option{running, withResolvConf(file(generated)), withConf(nm.Conf{})}, options...)
	}
	for _, test := range []struct {
		name    string
		options []option
		answers string // steps other than for resolv.conf if the local nameserver answers
		silent  string // and if it does not
		restore string
	}{
		{name: "first activation", options: with(), answers: "write and tell"},
		{name: "up to date", options: with(withResolvConf(file(oursText)), withSnippet(), withMode("default", "unmanaged")), silent: "remove and tell", restore: "remove and tell"},
		{name: "NetworkManager has not reloaded yet", options: with(withResolvConf(file(oursText)), withSnippet()), answers: "write and tell", silent: "remove and tell", restore: "remove and tell"},
		// On a virtual machine under load, restores used an old saved original, and no run notified
		// NetworkManager again.
		{name: "NetworkManager does not know that our file is gone", options: with(withResolvConf(file(generated)), withMode("default", "unmanaged")), answers: "write and tell", silent: "remove and tell", restore: "remove and tell"},
		{name: "an admin's rc-manager=unmanaged", options: with(withResolvConf(file(generated)), says("", "unmanaged"), withMode("default", "unmanaged"))},
		{name: "rc-manager=unmanaged, NetworkManager's files are unknown", options: []option{running, withResolvConf(file(generated)), withMode("default", "unmanaged")}},
		{name: "the snippet is another program's", options: with(func(s *State) { s.Snippet = file("[main]\n") }), answers: "write and tell", silent: "remove and tell", restore: "remove and tell"},
		{name: "NetworkManager is not running", options: []option{withResolvConf(file(generated)), withConf(nm.Conf{})}},
		{name: "NetworkManager has stopped", options: []option{withResolvConf(file(oursText)), withCaptured(sys), withSnippet()}, silent: "remove and tell", restore: "remove and tell"},
		{name: "NetworkManager's files are unknown", options: []option{running, withResolvConf(file(generated))}},
		{name: "dns=none", options: with(says("none", ""), withMode("none", "unmanaged"))},
		{name: "dns=none was set later", options: with(says("none", ""), withMode("none", "unmanaged"), withSnippet()), answers: "remove and tell", silent: "remove and tell", restore: "remove and tell"},
		{name: "rc-manager=file", options: with(says("", "file"), withMode("default", "file"))},
		{name: "dns=dnsmasq", options: with(says("dnsmasq", ""), withMode("dnsmasq", "symlink")), answers: "write and tell"},
		{name: "dns=default", options: with(says("default", "")), answers: "write and tell"},
		{name: "systemd-resolved writes", options: with(withMode("systemd-resolved", "unmanaged"))},
		{name: "openresolv writes a file of its own", options: with(withMode("default", "resolvconf"), withResolvConf(link("/run/resolvconf/resolv.conf", generated)))},
		{name: "the link to openresolv's file was displaced", options: with(withMode("default", "resolvconf"), withResolvConf(file(oursText)), withOriginal(link("/run/resolvconf/resolv.conf", generated)))},
		// Whether the original stays depended on whether NetworkManager writes the file, and that
		// on the original's target: both programs crashed with a stack overflow at each start.
		{name: "a file in the place of NetworkManager's, with openresolv", options: with(withMode("default", "resolvconf"), withResolvConf(file("nameserver 192.0.2.9\n")), withOriginal(file(generated))), answers: "write and tell"},
		{name: "openresolv writes behind another link", options: with(withMode("default", "resolvconf"), withResolvConf(link("/data/resolv.conf", generated))), answers: "write and tell"},
		{name: "openresolv writes resolv.conf", options: with(withMode("default", "resolvconf")), answers: "write and tell"},
		{name: "no program can write", options: with(withMode("default", "immutable"))},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := host(test.options...)
			checkLaws(t, s)
			p := NewPlan(s)
			for what, got := range map[string]string{"answers": besideResolvConf(s, p.Steps(true)), "silent": besideResolvConf(s, p.Steps(false)), "restore": besideResolvConf(s, newRestorePlan(s, false).Steps(false))} {
				want := map[string]string{"answers": test.answers, "silent": test.silent, "restore": test.restore}[what]
				if got != want {
					t.Errorf("%s: %q, want %q", what, got, want)
				}
			}
		})
	}
}

// besideResolvConf returns the steps for the snippet. They must come before resolv.conf becomes
// ours, and after it no longer is.
func besideResolvConf(s State, steps []Step) string {
	var done []string
	pointed := false
	for _, step := range steps {
		pointed = pointed || step.Path == s.Paths.ResolvConf && IsOurs(step.Data)
		if step.Path != s.Paths.Snippet {
			continue
		}
		text := string(step.Action)
		if step.Action == WriteFile && string(step.Data) != Snippet {
			text = "wrong"
		}
		if step.Tell != noProgram {
			text += " and tell"
		}
		if pointed {
			text += ", too late"
		}
		done = append(done, text)
	}
	return strings.Join(done, "; ")
}

// TestShieldInForce: NetworkManager's search list counts even while our snippet keeps it from
// writing the file.
func TestShieldInForce(t *testing.T) {
	s := host(withNetworkManager(dnsConfig("eth0", sys, "new.example")), withMode("default", "unmanaged"), withResolvConf(file(oursText)), says("", "unmanaged"))
	if got := summary(string(localResolvConf(&s, addr(nodeIP)))); !strings.Contains(got, "cluster.local example.com |") {
		t.Errorf("by an admin's rc-manager=unmanaged: %s", got)
	}
	withConf(nm.Conf{})(&s)
	withSnippet()(&s)
	if got := summary(string(localResolvConf(&s, addr(nodeIP)))); !strings.Contains(got, "cluster.local new.example |") {
		t.Errorf("by our snippet: %s", got)
	}
}

// newManaged is a tree where NetworkManager runs.
func newManaged(t *testing.T) *tree {
	t.Helper()
	w := newTree(t, map[string]string{"/etc/resolv.conf": generated, "/run/NetworkManager/resolv.conf": generated})
	w.snapshot = host(withNetworkManager(dnsConfig("eth0", sys, "example.com"))).NetworkManager
	return w
}

func TestTellNetworkManager(t *testing.T) {
	w := newManaged(t)
	before := w.files()
	w.apply()
	if w.told != 1 || w.read("/run/NetworkManager/conf.d/90-node-dns.conf") != Snippet {
		t.Errorf("got %d notifications, files %v", w.told, w.files())
	}
	if r := w.apply(); w.told != 1 || len(r.Written) > 0 {
		t.Errorf("second run: got %d notifications, wrote %v", w.told, r.Written)
	}
	w.restore(true)
	after := w.files()
	for path := range after {
		if _, ok := before[path]; !ok && !strings.HasPrefix(path, "/var/lib/node-dns/") && !strings.HasPrefix(path, "/etc/dnsmasq.d/") && !strings.HasPrefix(path, "/etc/origin/") {
			t.Errorf("%s remains", path)
		}
	}
	if w.told != 2 || after["/etc/resolv.conf"] != before["/etc/resolv.conf"] {
		t.Errorf("got %d notifications, resolv.conf %q", w.told, after["/etc/resolv.conf"])
	}
}

// TestDeafNetworkManager: if NetworkManager hangs, the node still gets its nameserver, and a later
// run notifies NetworkManager.
func TestDeafNetworkManager(t *testing.T) {
	w := newManaged(t)
	w.deaf = errors.New("context deadline exceeded")
	_, result, err := w.runner().Apply(t.Context(), nm.Event{Action: "apply"})
	if !errors.Is(err, w.deaf) || result.ResolvConf != Written || !IsOurs([]byte(w.read("/etc/resolv.conf"))) {
		t.Errorf("%v, resolv.conf %s: %q", err, result.ResolvConf, w.read("/etc/resolv.conf"))
	}
	w.deaf = nil
	if w.apply(); w.told != 2 || w.snapshot.RcManager != "unmanaged" {
		t.Errorf("got %d notifications, rc-manager %s", w.told, w.snapshot.RcManager)
	}
}

// TestDeafAtRestore: if NetworkManager did not notice that the snippet was removed, it still
// follows it. The next run of any kind notifies it, and resolv.conf gets its current list. On a
// virtual machine under load, every later stop restored NetworkManager's first list.
func TestDeafAtRestore(t *testing.T) {
	for _, row := range []struct {
		name string
		next func(w *tree)
	}{
		{"the hook runs, and node-dns is stopped", func(w *tree) { w.restore(true) }},
		{"node-dns is stopped again", func(w *tree) { w.restore(false) }},
		{"node-dns is started, and stopped", func(w *tree) { w.apply(); w.restore(false) }},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newManaged(t)
			w.apply()
			w.deaf = errors.New("context deadline exceeded")
			if _, _, err := w.runner().Restore(t.Context(), false); !errors.Is(err, w.deaf) || w.snapshot.RcManager != "unmanaged" {
				t.Fatalf("%v, rc-manager %s", err, w.snapshot.RcManager)
			}
			w.deaf = nil
			list := strings.ReplaceAll(generated, "10.0.0.2", "10.0.7.7")
			w.put("/run/NetworkManager/resolv.conf", list)
			row.next(w)
			if got := w.read("/etc/resolv.conf"); got != list || w.snapshot.RcManager != "symlink" {
				t.Errorf("rc-manager %s, resolv.conf %q", w.snapshot.RcManager, got)
			}
		})
	}
}

// TestShieldOfBlockedFile: if resolv.conf cannot point here, NetworkManager must be able to keep
// writing it.
func TestShieldOfBlockedFile(t *testing.T) {
	w := newManaged(t)
	w.mkdir("/etc/.resolv.conf.node-dns-tmp") // in place of the temporary file
	_, result, err := w.runner().Apply(t.Context(), nm.Event{Action: "apply"})
	if err == nil || result.ResolvConf != Failed {
		t.Errorf("%v, %s", err, result.ResolvConf)
	}
	if _, err := os.Lstat(w.paths.Snippet); err == nil || w.snapshot.RcManager != "symlink" || w.told != 2 {
		t.Errorf("got rc-manager %s, %d notifications, snippet: %v", w.snapshot.RcManager, w.told, err)
	}
}
