package cluster

import (
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/node-dns/node-dns/internal/kube/kubewire"
	"github.com/node-dns/node-dns/internal/nodeconfig"
)

// TestFilesChange: a change of any file that the kubeconfig names is detected. A replaced token
// used to be sent for another minute.
func TestFilesChange(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"ca.crt", "token"} {
		t.Run(name, func(t *testing.T) {
			write := func(name string, data []byte) {
				if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			write("ca.crt", certificateOf(t))
			write("token", []byte("first"))
			write("kubeconfig", []byte(`
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://192.0.2.1", certificate-authority: ca.crt}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
users: [{name: u, user: {tokenFile: token}}]
current-context: c
`))
			made, err := connect(Config{Kubeconfig: filepath.Join(dir, "kubeconfig")})
			if err != nil {
				t.Fatal(err)
			}
			defer made.close()
			if made.changed() {
				t.Error("changed() is true before any change")
			}
			write(name, []byte("second"))
			if !made.changed() {
				t.Errorf("a change of %s is not detected", name)
			}
		})
	}
}

// TestRedirectsAreRefused: a redirect once sent the bearer token to another host, even over plain
// HTTP.
func TestRedirectsAreRefused(t *testing.T) {
	var visits atomic.Int32
	elsewhere := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		visits.Add(1)
		t.Errorf("%s %s was sent to another host, with Authorization %q", r.Method, r.URL, r.Header.Get("Authorization"))
	})
	open, secure := httptest.NewServer(elsewhere), httptest.NewTLSServer(elsewhere)
	defer open.Close()
	defer secure.Close()
	requests := []struct {
		name string
		send func(a *api) error
	}{
		{"GET of the API's shape", func(a *api) error {
			_, _, err := a.shape(t.Context())
			return err
		}},
		{"GET of a list", func(a *api) error {
			_, err := a.get(t.Context(), "list", source{kind: kubewire.Services}, nil)
			return err
		}},
		{"POST of a review", func(a *api) error {
			_, err := a.allows(t.Context(), Right{Verb: "list", Resource: "services"}, "")
			return err
		}},
	}
	for _, target := range []string{open.URL, secure.URL} {
		for _, code := range []int{301, 302, 303, 307, 308} {
			api := httptest.NewTLSServer(http.RedirectHandler(target, code))
			made := connectTo(t, api)
			for _, request := range requests {
				err := request.send(made.api)
				if err == nil || !strings.Contains(err.Error(), strconv.Itoa(code)) || !strings.Contains(err.Error(), target) {
					t.Errorf("%s, answered with %d to %s: error %v, want one that names the code and the target", request.name, code, target, err)
				}
			}
			made.close()
			api.Close()
		}
	}
	if n := visits.Load(); n > 0 {
		t.Errorf("%d requests went to another host", n)
	}
}

// TestPluginsDoNotRun: no other program runs with the daemon's privileges.
func TestPluginsDoNotRun(t *testing.T) {
	dir := t.TempDir()
	path, mark := filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "ran")
	for _, user := range []string{"exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: touch, args: [" + mark + "]}", "auth-provider: {name: oidc}"} {
		text := "{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}]," +
			"clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}], users: [{name: u, user: {" + user + "}}]}"
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := connect(Config{Kubeconfig: path}); !errors.Is(err, nodeconfig.ErrPlugin) {
			t.Errorf("%s: error %v", user, err)
		}
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("the credential plugin ran")
	}
}

// connectTo connects to server with a kubeconfig that has a token.
func connectTo(t *testing.T, server *httptest.Server) *connection {
	t.Helper()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: %q, certificate-authority-data: %s}}]
users: [{name: u, user: {token: SECRET-NODE-TOKEN}}]
`, server.URL, base64.StdEncoding.EncodeToString(ca))
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	made, err := connect(Config{Kubeconfig: path})
	if err != nil {
		t.Fatal(err)
	}
	return made
}
