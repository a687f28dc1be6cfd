package doctor

import (
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/node-dns/node-dns/internal/nodeconfig"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// TestRootRunsNobodysProgram: run by root, `check-config` and `doctor` once executed the exec
// plugin of any kubeconfig with root's rights. They also sent any token file that it named to any
// server that it named.
func TestRootRunsNobodysProgram(t *testing.T) {
	if os.Geteuid() != 0 {
		lab.Skip(t, "needs root, whose rights these are")
	}
	const nobody = 65534
	const exec = "exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: %s/plugin}"
	for _, row := range []struct {
		name  string
		user  string // user of the kubeconfig; %s is the tree
		spoil func(path func(string) string) error
		want  string // part of check-config's output; empty if the API is asked
		level Level  // level of doctor's finding
	}{
		{name: "root's files", user: "tokenFile: token", level: OK},
		{name: "a plugin in root's kubeconfig", user: exec, want: "rights not checked: node-dns does not run credential plugins", level: Warn},
		{name: "an old plugin", user: "auth-provider: {name: oidc}", want: "rights not checked: node-dns does not run credential plugins", level: Warn},
		{name: "a plugin in another user's kubeconfig", user: exec, spoil: func(path func(string) string) error {
			return os.Chown(path("kubeconfig"), nobody, nobody)
		}, want: "kubeconfig is not owned by root", level: Warn},
		{name: "a plugin in a group-writable kubeconfig", user: exec, spoil: func(path func(string) string) error {
			return os.Chmod(path("kubeconfig"), 0o664)
		}, want: "kubeconfig can be written by users other than root", level: Warn},
		{name: "another user's kubeconfig names root's token", user: "tokenFile: token", spoil: func(path func(string) string) error {
			return os.Chown(path("kubeconfig"), nobody, nobody)
		}, want: "kubeconfig is not owned by root", level: Warn},
		{name: "another user's link to root's token", user: "tokenFile: link", spoil: func(path func(string) string) error {
			return os.Lchown(path("link"), nobody, nobody)
		}, want: "link is not owned by root", level: Warn},
		{name: "in another user's directory", user: "tokenFile: token", spoil: func(path func(string) string) error {
			return os.Chown(path("."), nobody, nobody)
		}, want: "etc/node-dns is not owned by root", level: Warn},
	} {
		t.Run(row.name, func(t *testing.T) {
			var asked atomic.Int32
			server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked.Add(1)
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprint(w, `{"status": {"allowed": true}}`)
			}))
			defer server.Close()
			root := t.TempDir()
			path := func(name string) string { return filepath.Join(root, "etc/node-dns", name) }
			mark := filepath.Join(root, "ran")
			user := row.user
			if strings.Contains(user, "%s") {
				user = fmt.Sprintf(user, filepath.Dir(path("plugin")))
			}
			ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
			kubeconfig := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],
clusters: [{name: c, cluster: {server: %q, certificate-authority-data: %s}}], users: [{name: u, user: {%s}}]}`,
				server.URL, base64.StdEncoding.EncodeToString(ca), user)
			if err := os.MkdirAll(path("."), 0o755); err != nil {
				t.Fatal(err)
			}
			for name, text := range map[string]string{"kubeconfig": kubeconfig, "token": "secret", "plugin": "#!/bin/sh\nid -u >" + mark + "\n"} {
				if err := os.WriteFile(path(name), []byte(text), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Symlink("token", path("link")); err != nil {
				t.Fatal(err)
			}
			if row.spoil != nil {
				if err := row.spoil(path); err != nil {
					t.Fatal(err)
				}
			}
			paths := nodeconfig.DefaultPaths(root)
			config, err := nodeconfig.Load(paths)
			if err != nil {
				t.Fatal(err)
			}
			notes := strings.Join(CheckConfig(t.Context(), root, paths).Notes, "\n")
			if row.want == "" {
				row.want = "grants all required rights"
			}
			if !strings.Contains(notes, row.want) {
				t.Errorf("missing %q in the output of check-config:\n%s", row.want, notes)
			}
			g := &gathering{root: root}
			g.s.Host.State.Config, g.s.Host.Root = config, true
			g.api(t.Context())
			level := OK
			found := append(g.s.certificate(), g.s.apiServer()...)
			for _, finding := range found {
				level = max(level, finding.Level)
			}
			if level != row.level || len(found) == 0 {
				t.Errorf("got finding %+v", found)
			}
			if text, err := os.ReadFile(mark); err == nil {
				t.Errorf("the plugin ran as user %s", text)
			}
			if isAsked, want := asked.Load() > 0, row.want == "grants all required rights"; isAsked != want {
				t.Errorf("requests reached the server: %v, want %v", isAsked, want)
			}
		})
	}
}
