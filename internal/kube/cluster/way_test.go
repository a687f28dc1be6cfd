package cluster

import (
	"crypto/tls"
	"encoding/base64"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/transport"

	"github.com/node-dns/node-dns/internal/nodeconfig"
	"github.com/node-dns/node-dns/internal/test/kubetest"
)

// kubeconfigWith returns a kubeconfig with these settings of the cluster and the user.
func kubeconfigWith(cluster, user string) string {
	return "{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],\n" +
		"clusters: [{name: c, cluster: {" + cluster + "}}], users: [{name: u, user: {" + user + "}}]}"
}

// TestWay: we interpret a kubeconfig as client-go does.
func TestWay(t *testing.T) {
	certificate, private := pairOf(t)
	data, key := base64.StdEncoding.EncodeToString(certificate), base64.StdEncoding.EncodeToString(private)
	server := "server: 'https://10.0.0.1:6443'"
	for _, row := range []struct {
		name, cluster, user string
		refused             string // expected part of our error; empty if accepted
		clientGo            bool   // client-go accepts what we reject
	}{
		{name: "token", cluster: server + ", certificate-authority-data: " + data, user: "token: secret"},
		{name: "client certificate", cluster: server, user: "client-certificate-data: " + data + ", client-key-data: " + key},
		{name: "password", cluster: server, user: "username: u, password: p"},
		{name: "other server name, no verification", cluster: server + ", tls-server-name: api, insecure-skip-tls-verify: true", user: "token: t"},
		{name: "no credentials over HTTP", cluster: "server: 'http://10.0.0.1:8080'", user: "token: t, as: me"},
		{name: "server with a path (Rancher)", cluster: "server: 'https://10.0.0.1/k8s/clusters/c-1?x=y#z'", user: "token: t"},
		{name: "impersonation", cluster: server, user: "token: t, as: me, as-uid: '7', as-groups: [a, b], as-user-extra: {k: [v]}"},
		{name: "proxy", cluster: server + ", proxy-url: 'socks5://10.0.0.9:1080', disable-compression: true", user: "token: t"},
		{name: "no user settings", cluster: server},
		{name: "headers that need an escape", cluster: server, user: "token: t, as: me, as-user-extra: {'a/b %ü': [v, w], 'X~9`': [z]}"},
		{name: "a key without a certificate", cluster: server, user: "token: t, client-key-data: " + key},
		{name: "a password without a name", cluster: server, user: "password: p"},

		{name: "no server", cluster: "tls-server-name: x", refused: "server \"\": expected https://HOST:PORT"},
		{name: "server without a scheme", cluster: "server: '10.0.0.1:6443'", refused: "expected https://", clientGo: true},
		{name: "invalid server", cluster: "server: 'ftp://10.0.0.1'", refused: "expected https://", clientGo: true},
		{name: "invalid proxy", cluster: server + ", proxy-url: 'ftp://user:secret@x'", refused: "proxy-url: expected"},
		{name: "CA is not base64", cluster: server + ", certificate-authority-data: '!'", refused: "certificate-authority-data: expected base64"},
		{name: "certificate is not base64", cluster: server, user: "client-certificate-data: '!'", refused: "client-certificate-data: expected base64"},
		{name: "key is not base64", cluster: server, user: "client-key-data: '!'", refused: "client-key-data: expected base64"},
		{name: "certificate without a key", cluster: server, user: "client-certificate-data: " + data, refused: "client-key is missing"},
		{name: "CA without a certificate", cluster: server + ", certificate-authority-data: QQ==", refused: "certificate-authority: expected certificates in PEM"},
		{name: "an invalid client certificate", cluster: server, user: "client-certificate-data: QQ==, client-key-data: QQ==", refused: "client-certificate: "},
		{name: "CA and no verification", cluster: server + ", insecure-skip-tls-verify: true, certificate-authority-data: " + data, refused: "expected one of them"},
		{name: "password and token", cluster: server, user: "token: t, username: u, password: p", refused: "expected one of them"},
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
	config, err := nodeconfig.FlattenKubeconfig("/etc/kubeconfig", data, func(string) ([]byte, error) { return nil, os.ErrNotExist })
	if err != nil {
		return way{}, err
	}
	return newWay(config, nil)
}

// clientGo is client-go's interpretation of a kubeconfig.
type clientGo struct {
	server    *url.URL
	config    *transport.Config
	transport *http.Transport
	header    http.Header
	tls       *tls.Config
}

func theirWay(data []byte) (way clientGo, err error) {
	parsed, err := clientcmd.Load(data)
	if err != nil {
		return way, err
	}
	config, err := clientcmd.NewDefaultClientConfig(*parsed, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return way, err
	}
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return way, err
	}
	way.server = &url.URL{Scheme: server.Scheme, Host: server.Host, Path: server.Path}
	if way.config, err = config.TransportConfig(); err != nil {
		return way, err
	}
	if way.config.Proxy == nil {
		way.config.Proxy = http.ProxyFromEnvironment // otherwise client-go caches the transport
	}
	carrier, err := transport.New(way.config)
	if err != nil {
		return way, err
	}
	for wrapped := true; wrapped; {
		var wrapper utilnet.RoundTripperWrapper
		if wrapper, wrapped = carrier.(utilnet.RoundTripperWrapper); wrapped {
			carrier = wrapper.WrappedRoundTripper()
		}
	}
	way.transport = carrier.(*http.Transport)
	if way.tls, err = transport.TLSConfigFor(way.config); err != nil {
		return way, err
	}
	sender, err := transport.HTTPWrappersForConfig(way.config, roundTrip(func(r *http.Request) (*http.Response, error) {
		way.header = r.Header
		return &http.Response{StatusCode: http.StatusNoContent, Body: http.NoBody}, nil
	}))
	if err != nil {
		return way, err
	}
	_, err = sender.RoundTrip(&http.Request{URL: server, Header: http.Header{}})
	return way, err
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func compareWays(t *testing.T, ours way, theirs clientGo) {
	t.Helper()
	same := func(what string, theirs, ours any) {
		t.Helper()
		if diff := cmp.Diff(theirs, ours, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-client-go +ours):\n%s", what, diff)
		}
	}
	request := &http.Request{URL: ours.server}
	wantProxy, _ := theirs.transport.Proxy(request)
	gotProxy, _ := ours.transport.Proxy(request)
	same("proxy", wantProxy, gotProxy)
	same("server", theirs.server, ours.server)
	same("headers", theirs.header, ours.header)
	same("CA", theirs.config.TLS.CAData, ours.ca)
	same("compression", theirs.transport.DisableCompression, ours.transport.DisableCompression)
	same("times and limits", limitsOf(theirs.transport), limitsOf(ours.transport))
	same("TLS", settingsOf(t, theirs.tls), settingsOf(t, ours.transport.TLSClientConfig))
}

func limitsOf(t *http.Transport) []any {
	return []any{t.TLSHandshakeTimeout, t.IdleConnTimeout, t.MaxIdleConnsPerHost, t.MaxIdleConns, t.MaxConnsPerHost, t.ResponseHeaderTimeout, t.ExpectContinueTimeout}
}

// settingsOf returns the comparable part of a tls.Config.
func settingsOf(t *testing.T, c *tls.Config) []any {
	t.Helper()
	if c == nil {
		c = &tls.Config{MinVersion: tls.VersionTLS12} // the default of crypto/tls for a client
	}
	var subjects, certificate [][]byte
	if c.RootCAs != nil {
		//lint:ignore SA1019 these pools have no system roots
		subjects = c.RootCAs.Subjects()
	}
	if c.GetClientCertificate != nil {
		pair, err := c.GetClientCertificate(&tls.CertificateRequestInfo{})
		if err != nil {
			t.Fatal(err)
		}
		certificate = pair.Certificate
	}
	return []any{c.MinVersion, c.InsecureSkipVerify, c.ServerName, c.RootCAs == nil, subjects, len(c.Certificates), certificate}
}

// TestPings: HTTP/2 pings find a connection that is dead. client-go issue 374: such a watch went on
// for a quarter of an hour.
func TestPings(t *testing.T) {
	fakeTime(t, func(t *testing.T) {
		certificate, private := pairOf(t)
		pair, err := tls.X509KeyPair(certificate, private)
		if err != nil {
			t.Fatal(err)
		}
		network := kubetest.NewWire()
		server := &http.Server{
			TLSConfig:         &tls.Config{Certificates: []tls.Certificate{pair}},
			ReadHeaderTimeout: time.Hour,
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(http.StatusOK)
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done() // a watch without an event
			}),
		}
		done := make(chan error, 1)
		go func() { done <- server.ServeTLS(network, "", "") }()
		defer func() {
			server.Close()
			<-done
		}()
		way, err := newWay(nodeconfig.KubeContext{Cluster: nodeconfig.KubeCluster{Server: "https://192.0.2.6", InsecureSkipTLSVerify: true}}, network.Dial)
		if err != nil {
			t.Fatal(err)
		}
		response, err := (&http.Client{Transport: way.transport}).Get(way.server.String())
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		ended := make(chan time.Time, 1)
		go func() {
			_, _ = response.Body.Read(make([]byte, 1))
			ended <- time.Now()
		}()
		time.Sleep(time.Hour)
		if len(ended) > 0 || response.ProtoMajor != 2 {
			t.Fatalf("a live watch over %s ended", response.Proto)
		}
		network.Freeze()
		frozen := time.Now()
		if took := (<-ended).Sub(frozen); took > pingAfter+pingTimeout {
			t.Errorf("a dead watch ended after %v, want at most %v", took, pingAfter+pingTimeout)
		}
	})
}
