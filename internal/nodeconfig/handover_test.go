package nodeconfig

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// handoverTree creates a kubeconfig and the file that it names, readable only by root.
func handoverTree(t *testing.T) (paths Paths, kubeconfig, token string) {
	t.Helper()
	root := lab.OpenDir(t)
	paths = DefaultPaths(root)
	kubeconfig, token = filepath.Join(root, "/etc/k/config"), filepath.Join(root, "/etc/k/token")
	write(t, kubeconfig, kubeconfigOf("tokenFile: token"))
	write(t, token, "first\n")
	write(t, paths.Handover, "")
	for _, path := range []string{kubeconfig, token} {
		if err := os.Chmod(path, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return paths, kubeconfig, token
}

// handOver does the work of the privileged half.
func handOver(t *testing.T, paths Paths, kubeconfig string) Handover {
	t.Helper()
	h, err := ReadHandover(paths, kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	write(t, paths.Handover, string(h.Bytes()))
	return h
}

func TestHandover(t *testing.T) {
	paths, kubeconfig, token := handoverTree(t)
	find := func() (k Kubeconfig) {
		lab.AsNobody(func() { k = FindKubeconfig(paths, kubeconfig) })
		return k
	}
	if os.Geteuid() != 0 {
		lab.Skip(t, "needs root: nobody is refused what is his own")
	}
	if k := find(); k.Use != paths.Handover || !strings.Contains(k.Wanted, "has not copied it") || k.Problem != k.Wanted {
		t.Errorf("before the handover: got %+v", k)
	}
	h := handOver(t, paths, kubeconfig)
	if read, err := parseHandover(h.Bytes()); err != nil || cmp.Diff(h, read) != "" {
		t.Errorf("round trip: error %v:\n%s", err, cmp.Diff(h, read))
	}
	if !strings.Contains(string(h.Text), "token: first\n") || len(h.Sources) != 2 || h.Sources[1].Path != "/etc/k/token" {
		t.Errorf("got sources %+v, text\n%s", h.Sources, h.Text)
	}
	if k := find(); k.Use != paths.Handover || k.Wanted != "" || k.Problem != "" || !strings.Contains(k.Note, "/var/lib/node-dns/kubeconfig") {
		t.Errorf("after the handover: got %+v", k)
	}

	write(t, token+".new", "second\n")
	if err := os.Rename(token+".new", token); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(token, 0o600); err != nil {
		t.Fatal(err)
	}
	if k := find(); k.Use != paths.Handover || !strings.Contains(k.Wanted, token+" has changed") {
		t.Errorf("token changed: got %+v", k)
	}
	if h := handOver(t, paths, kubeconfig); !strings.Contains(string(h.Text), "token: second\n") {
		t.Errorf("got text\n%s", h.Text)
	}

	write(t, kubeconfig, kubeconfigOf("exec: {command: x}"))
	handOver(t, paths, kubeconfig)
	if k := find(); k.Use != paths.Handover || k.Wanted != "" || !strings.Contains(k.Problem, "does not copy it: node-dns does not run credential plugins") {
		t.Errorf("exec plugin: got %+v", k)
	}

	for name, text := range map[string]string{"another kubeconfig": strings.Replace(string(h.Bytes()), "/etc/k/config", "/etc/other", 1), "truncated": handoverTitle, "not a handover file": "users: []\n"} {
		write(t, paths.Handover, text)
		if k := find(); k.Use != paths.Handover || k.Wanted == "" || k.Note != "" {
			t.Errorf("%s: %+v", name, k)
		}
	}
	for _, path := range []string{kubeconfig, token} {
		if err := os.Chmod(path, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if k := find(); k != (Kubeconfig{Original: kubeconfig, Use: kubeconfig}) {
		t.Errorf("readable kubeconfig: got %+v", k)
	}
	if k := FindKubeconfig(paths, ""); k != (Kubeconfig{}) {
		t.Errorf("no kubeconfig: got %+v", k)
	}
}

// TestHandoverTrust: root does not follow a path that other users can change, because it may lead
// anywhere.
func TestHandoverTrust(t *testing.T) {
	if os.Geteuid() != 0 {
		lab.Skip(t, "needs root, to make files that are others'")
	}
	for _, test := range []struct {
		name  string
		spoil func(t *testing.T, paths Paths, kubeconfig, token string)
		want  string // part of the refusal; empty if handed over
	}{
		{"only root may write", func(*testing.T, Paths, string, string) {}, ""},
		{"symlink to a file of root", func(t *testing.T, paths Paths, _, token string) {
			must(t, os.Rename(token, paths.Root+"/etc/real"), os.Symlink("../real", token))
		}, ""},
		{"a kubeconfig that the daemon may write", func(t *testing.T, _ Paths, kubeconfig, _ string) { must(t, os.Chown(kubeconfig, 65534, 65534)) }, "/etc/k/config is not owned by root"},
		{"kubeconfig that the group may write", func(t *testing.T, _ Paths, kubeconfig, _ string) { must(t, os.Chmod(kubeconfig, 0o660)) }, "/etc/k/config can be written by users other than root"},
		{"a directory that others may write", func(t *testing.T, paths Paths, _, _ string) { must(t, os.Chmod(paths.Root+"/etc/k", 0o1777)) }, "/etc/k can be written by users other than root"},
		{"token below a directory of another user", func(t *testing.T, paths Paths, _, token string) {
			must(t, os.Mkdir(paths.Root+"/his", 0o755), os.Rename(token, paths.Root+"/his/token"), os.Symlink("../../his/token", token), os.Chown(paths.Root+"/his", 65534, 65534))
		}, "/his is not owned by root"},
		{"symlink of another user", func(t *testing.T, paths Paths, _, token string) {
			must(t, os.Rename(token, paths.Root+"/etc/real"), os.Symlink("../real", token), os.Lchown(token, 65534, 65534))
		}, "/etc/k/token is not owned by root"},
	} {
		t.Run(test.name, func(t *testing.T) {
			paths, kubeconfig, token := handoverTree(t)
			test.spoil(t, paths, kubeconfig, token)
			h := handOver(t, paths, kubeconfig)
			if !strings.Contains(h.Refused, test.want) || (h.Refused == "") != (test.want == "") || (len(h.Text) == 0) != (test.want != "") {
				t.Errorf("refused %q, want %q; text %q", h.Refused, test.want, h.Text)
			}
		})
	}
	t.Run("symlink loop", func(t *testing.T) {
		paths, kubeconfig, token := handoverTree(t)
		must(t, os.Remove(token), os.Symlink("token", token))
		if _, err := ReadHandover(paths, kubeconfig); err == nil || !strings.Contains(err.Error(), "too many levels of symbolic links") {
			t.Error(err)
		}
	})
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// FuzzParseHandover: an accepted file is written back unchanged.
func FuzzParseHandover(f *testing.F) {
	f.Add([]byte(handoverTitle + handoverSource + `{"path":"/etc/k"}` + "\napiVersion: v1\n"))
	f.Add([]byte(handoverTitle + handoverSource + `{"path":"/etc/k"}` + "\n" + handoverRefused + "\"why\"\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := parseHandover(data)
		if err != nil {
			return
		}
		again, err := parseHandover(h.Bytes())
		if err != nil || cmp.Diff(h, again) != "" {
			t.Errorf("%v\n%s", err, cmp.Diff(h, again))
		}
	})
}
