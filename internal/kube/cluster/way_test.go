package cluster

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/transport"

	"github.com/node-dns/node-dns/internal/kube/kubeconfig"
)

// kubeconfigWith returns a kubeconfig with these settings of the cluster and the user.
func kubeconfigWith(cluster, user string) string {
	return "{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],\n" +
		"clusters: [{name: c, cluster: {" + cluster + "}}], users: [{name: u, user: {" + user + "}}]}"
}

// TestWay: we interpret a kubeconfig as client-go does.
func TestWay(t *testing.T) {
	data := base64.StdEncoding.EncodeToString([]byte(certificateOf(t)))
	server := "server: 'https://10.0.0.1:6443'"
	for _, row := range []struct {
		name, cluster, user string
		refused             string // expected part of our error; empty if accepted
		clientGo            bool   // client-go accepts what we reject
	}{
		{name: "token", cluster: server + ", certificate-authority-data: " + data, user: "token: secret"},
		{name: "client certificate", cluster: server, user: "client-certificate-data: " + data + ", client-key-data: " + data},
		{name: "password", cluster: server, user: "username: u, password: p"},
		{name: "other server name, no verification", cluster: server + ", tls-server-name: api, insecure-skip-tls-verify: true", user: "token: t"},
		{name: "no credentials over HTTP", cluster: "server: 'http://10.0.0.1:8080'", user: "token: t, as: me"},
		{name: "server with a path (Rancher)", cluster: "server: 'https://10.0.0.1/k8s/clusters/c-1?x=y#z'", user: "token: t"},
		{name: "impersonation", cluster: server, user: "token: t, as: me, as-uid: '7', as-groups: [a, b], as-user-extra: {k: [v]}"},
		{name: "proxy", cluster: server + ", proxy-url: 'socks5://10.0.0.9:1080', disable-compression: true", user: "token: t"},
		{name: "no user settings", cluster: server},

		{name: "no server", cluster: "tls-server-name: x", refused: "server \"\": expected https://HOST:PORT"},
		{name: "server without a scheme", cluster: "server: '10.0.0.1:6443'", refused: "expected https://", clientGo: true},
		{name: "invalid server", cluster: "server: 'ftp://10.0.0.1'", refused: "expected https://", clientGo: true},
		{name: "invalid proxy", cluster: server + ", proxy-url: 'ftp://user:secret@x'", refused: "proxy-url: expected"},
		{name: "CA is not base64", cluster: server + ", certificate-authority-data: '!'", refused: "certificate-authority-data: expected base64"},
		{name: "certificate is not base64", cluster: server, user: "client-certificate-data: '!'", refused: "client-certificate-data: expected base64"},
		{name: "key is not base64", cluster: server, user: "client-key-data: '!'", refused: "client-key-data: expected base64"},
		{name: "certificate without a key", cluster: server, user: "client-certificate-data: " + data, refused: "client-key is missing"},
		{name: "groups without a user", cluster: server, user: "as-groups: [a]", refused: "require as"},
	} {
		t.Run(row.name, func(t *testing.T) {
			text := kubeconfigWith(row.cluster, row.user)
			ours, err := ourWay([]byte(text))
			theirs, theirErr := theirWay([]byte(text))
			if row.refused != "" {
				if err == nil || !strings.Contains(err.Error(), row.refused) || strings.Contains(err.Error(), "secret") {
					t.Errorf("error %v, want %q", err, row.refused)
				}
				if (theirErr == nil) != row.clientGo {
					t.Errorf("client-go: %v", theirErr)
				}
				return
			}
			if err != nil || theirErr != nil {
				t.Fatalf("%v; client-go: %v", err, theirErr)
			}
			compareWays(t, ours, theirs)
		})
	}
}

// FuzzWay: a kubeconfig that both accept means the same to us and to client-go.
func FuzzWay(f *testing.F) {
	f.Add([]byte(kubeconfigWith("server: 'https://10.0.0.1:6443', certificate-authority-data: QQ==", "token: t")))
	f.Add([]byte(kubeconfigWith("server: 'https://10.0.0.1:6443', insecure-skip-tls-verify: true, proxy-url: 'http://p'", "username: u, password: p, as: x")))
	f.Add([]byte(kubeconfigWith("server: 'http://10.0.0.1/path'", "client-certificate-data: QQ==, client-key-data: QQ==")))
	f.Fuzz(func(t *testing.T, data []byte) {
		ours, err := ourWay(data)
		if err != nil {
			return
		}
		if theirs, err := theirWay(data); err == nil {
			compareWays(t, ours, theirs)
		}
	})
}

func ourWay(data []byte) (way, error) {
	config, err := kubeconfig.Flatten("/etc/kubeconfig", data, func(string) ([]byte, error) { return nil, os.ErrNotExist })
	if err != nil {
		return way{}, err
	}
	return newWay(config, nil)
}

// theirWay returns client-go's interpretation of a kubeconfig.
func theirWay(data []byte) (way, error) {
	parsed, err := clientcmd.Load(data)
	if err != nil {
		return way{}, err
	}
	config, err := clientcmd.NewDefaultClientConfig(*parsed, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return way{}, err
	}
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return way{}, err
	}
	t, err := config.TransportConfig()
	if err != nil {
		return way{}, err
	}
	return way{&url.URL{Scheme: server.Scheme, Host: server.Host, Path: server.Path}, *t}, nil
}

func compareWays(t *testing.T, ours, theirs way) {
	t.Helper()
	request := &http.Request{URL: ours.server}
	if theirs.transport.Proxy == nil {
		theirs.transport.Proxy = http.ProxyFromEnvironment // the default of net/http
	}
	wantProxy, _ := theirs.transport.Proxy(request)
	gotProxy, _ := ours.transport.Proxy(request)
	if diff := cmp.Diff(wantProxy, gotProxy); diff != "" {
		t.Errorf("proxy (-client-go +ours):\n%s", diff)
	}
	options := []cmp.Option{
		cmpopts.EquateEmpty(),
		cmpopts.IgnoreFields(transport.Config{}, "Proxy", "DialHolder"),
		cmpopts.IgnoreUnexported(transport.TLSConfig{}),
		cmpopts.IgnoreFields(transport.TLSConfig{}, "GetCertHolder"),
	}
	if diff := cmp.Diff(theirs.transport, ours.transport, options...); diff != "" {
		t.Errorf("transport (-client-go +ours):\n%s", diff)
	}
	if diff := cmp.Diff(theirs.server, ours.server); diff != "" {
		t.Errorf("server (-client-go +ours):\n%s", diff)
	}
}
