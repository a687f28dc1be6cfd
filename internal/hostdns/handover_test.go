package hostdns

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/nm"
	"github.com/node-dns/node-dns/internal/test/lab"
)

const (
	kubeconfigText = "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: https://192.0.2.9}}]\n" +
		"contexts: [{name: c, context: {cluster: c, user: u}}]\ncurrent-context: c\nusers: [{name: u, user: {tokenFile: token}}]\n"
	varKubeconfig = "/var/lib/node-dns/kubeconfig"
)

// newCredentials returns a tree with a user node-dns and a kubeconfig whose token only root may
// read.
func newCredentials(t *testing.T) *tree {
	t.Helper()
	if os.Geteuid() != 0 {
		lab.Skip(t, "needs root to check what another user may read")
	}
	w := newTree(t, map[string]string{
		"/etc/resolv.conf": generated, "/etc/passwd": "root:x:0:0::/:/bin/sh\nnode-dns:x:4711:4712::/:/bin/false\n", "/etc/group": "root:x:0:\nnode-dns:x:4712:\n",
		"/etc/node-dns/kubeconfig": kubeconfigText, "/etc/node-dns/token": "first\n",
	})
	w.chmod("/etc/node-dns/token", 0o600)
	return w
}

// copied returns the daemon's copy of the kubeconfig.
func (w *tree) copied() (text string, mode fs.FileMode, owner int) {
	w.t.Helper()
	f := ReadFile(w.root, w.at(varKubeconfig))
	return string(f.Data), f.Mode, f.Owner
}

func TestHandover(t *testing.T) {
	w := newCredentials(t)
	w.apply()
	if text, mode, owner := w.copied(); !strings.HasSuffix(text, "token: first\n") || mode != 0o400 || owner != 4711 {
		t.Errorf("mode %v, owner %d:\n%s", mode, owner, text)
	}
	before := w.identities()
	w.apply()
	wantSame(t, "touched", before, w.identities())

	w.put("/etc/node-dns/token", "second\n") // its mode stays the same
	w.apply()
	if text, _, _ := w.copied(); !strings.HasSuffix(text, "token: second\n") {
		t.Errorf("after a rotation:\n%s", text)
	}
	w.chmod(varKubeconfig, 0o644)
	w.apply()
	if _, mode, _ := w.copied(); mode != 0o400 {
		t.Errorf("mode %v", mode)
	}
	// Earlier versions left the copy so that a member of the group node-dns could read the token of
	// root's kubeconfig.
	if err := errors.Join(os.Chown(w.at(varKubeconfig), 0, 4712), os.Chmod(w.at(varKubeconfig), 0o640)); err != nil {
		t.Fatal(err)
	}
	w.apply()
	if text, mode, owner := w.copied(); !strings.HasSuffix(text, "token: second\n") || mode != 0o400 || owner != 4711 {
		t.Errorf("after an upgrade: mode %v, owner %d:\n%s", mode, owner, text)
	}
	if log := w.log.String(); strings.Contains(log, "second") || strings.Contains(w.read("/run/origin-dns-dispatcher/rewrites.json"), "kubeconfig") {
		t.Errorf("the log or the history contains credentials:\n%s", log)
	}

	w.remove("/etc/node-dns/token") // as for a moment during a replacement
	_, _, err := w.runner().Apply(t.Context(), nm.Event{Action: "apply"})
	if text, _, _ := w.copied(); err != nil || !strings.HasSuffix(text, "token: second\n") || !strings.Contains(w.log.String(), "reading the files that the kubeconfig ") {
		t.Errorf("%v, without the token:\n%s\n%s", err, text, &w.log)
	}
	w.put("/etc/node-dns/token", "third\n")
	w.apply() // 0644: the daemon may read the token itself
	if text, _, _ := w.copied(); text != "" {
		t.Errorf("the copy remains although it is not needed:\n%s", text)
	}
	w.chmod("/etc/node-dns/token", 0o600)
	w.apply()
	w.restore(true)
	if text, _, _ := w.copied(); text != "" {
		t.Errorf("after a restore the copy is\n%s", text)
	}
}

func TestHandoverRefused(t *testing.T) {
	for _, test := range []struct {
		name  string
		spoil func(w *tree)
		want  string // content of the copy; "" if there is none
	}{
		{"a plugin", func(w *tree) {
			w.put("/etc/node-dns/kubeconfig", strings.Replace(kubeconfigText, "tokenFile: token", "exec: {command: x}", 1))
			w.chmod("/etc/node-dns/kubeconfig", 0o600)
		}, "credential plugins"},
		{"no group", func(w *tree) { w.put("/etc/group", "root:x:0:\n") }, "no user node-dns with a group of that name"},
		{"a group that is root's", func(w *tree) { w.put("/etc/group", "node-dns:x:0:\n") }, "no user node-dns with a group of that name"},
		{"no user, and no user may read it", func(w *tree) { w.remove("/etc/passwd") }, "no user node-dns with a group of that name"},
		{"no user, and everybody may", func(w *tree) {
			w.remove("/etc/passwd")
			w.chmod("/etc/node-dns/token", 0o644)
		}, ""},
		{"no resolver", func(w *tree) { w.put("/etc/node-dns/node-dns.yaml", "kubeconfig: none\n") }, ""},
		{"a kubeconfig of another user", func(w *tree) { w.chmod("/etc/node-dns/kubeconfig", 0o666) }, "can be written by users other than root"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newCredentials(t)
			test.spoil(w)
			plan, _, err := w.runner().Apply(t.Context(), nm.Event{Action: "apply"})
			if err != nil {
				t.Fatal(err)
			}
			text, mode, _ := w.copied()
			warned := strings.Contains(strings.Join(plan.Warnings, "\n"), "is not copied for the daemon, which may not read it: ")
			if !strings.Contains(text, test.want) || (text == "") != (test.want == "") || strings.Contains(text, "first") || warned != (text != "") {
				t.Errorf("warnings %q, mode %v:\n%s", plan.Warnings, mode, text)
			}
			if text != "" && mode != 0o644 {
				t.Errorf("got mode %v for a copy without a secret", mode)
			}
		})
	}
}

// TestHandoverStays: a run that cannot tell what the daemon may read does not change the copy.
func TestHandoverStays(t *testing.T) {
	w := newCredentials(t)
	w.apply()
	w.put("/etc/node-dns/node-dns.yaml", "listen: everywhere\n")
	w.apply()
	if text, _, _ := w.copied(); text == "" {
		t.Error("an invalid configuration removed the credentials")
	}
	var s State
	lab.AsNobody(func() { s = host(func(s *State) { s.Paths = w.paths }) })
	if steps := handoverSteps(&s); len(steps) > 0 {
		t.Errorf("a plan without root would %s", describe(NewPlan(s), steps))
	}
}

// TestCredentialsAreNotShown: users see plans and copy them into tickets.
func TestCredentialsAreNotShown(t *testing.T) {
	s := host(withResolvConf(file(oursText)), withCaptured(sys), func(s *State) { s.Handover = &Handover{Text: []byte("token: s3cret\n"), Owner: 4711} })
	for _, s := range []State{s, {Paths: s.Paths, Config: s.Config, Net: s.Net, Kubeconfig: File{Exists: true, Data: s.Handover.Text, Mode: 0o400, Owner: 4711}, Handover: &Handover{}}} {
		var text, json strings.Builder
		p := NewPlan(s)
		if err := p.WriteText(&text, nil); err != nil {
			t.Fatal(err)
		}
		if err := p.WriteJSON(&json, nil); err != nil {
			t.Fatal(err)
		}
		if all := text.String() + json.String(); strings.Contains(all, "s3cret") || strings.Count(all, varKubeconfig) != 2 {
			t.Errorf("the output shows the token:\n%s", all)
		}
	}
}
