package nodeconfig

import (
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"
)

var (
	certPEM = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("cert")}))
	keyPEM  = string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: []byte("key")}))
)

func b64(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

// aKubeconfig returns a kubeconfig with these settings of the cluster and the user, and with other
// entries.
func aKubeconfig(cluster, user string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Config
preferences: {}
clusters:
- {name: other, cluster: {server: "https://other"}}
- name: default
  cluster: {server: "https://10.0.0.1:6443", %s}
contexts:
- {name: other, context: {cluster: other, user: admin}}
- {name: node, context: {cluster: default, user: node, namespace: x}}
current-context: node
users:
- {name: admin, user: {token: another-secret}}
- name: node
  user: {%s}
`, cluster, user)
}

func TestFlatten(t *testing.T) {
	files := map[string]string{
		"/etc/k/ca.crt": "bundle of\n" + certPEM + certPEM, "/pki/current.pem": certPEM + keyPEM, "/etc/k/token": "se.cr-et~\n",
		"/etc/shadow": "root:$6$secret:19000:0:99999:7:::\n", "/etc/k/empty": "",
	}
	for _, test := range []struct {
		name string
		text string
		want KubeCluster
		user KubeUser
		err  string // part of the error; empty if FlattenKubeconfig succeeds
	}{
		{
			name: "kubelet", text: aKubeconfig("certificate-authority: ca.crt", "client-certificate: /pki/current.pem, client-key: /pki/current.pem"),
			want: KubeCluster{CertificateAuthorityData: b64(certPEM + certPEM)},
			user: KubeUser{ClientCertificateData: b64(certPEM), ClientKeyData: b64(keyPEM)},
		},
		{
			name: "token file", text: aKubeconfig("tls-server-name: api, proxy-url: http://p", "token: old, tokenFile: token"),
			want: KubeCluster{TLSServerName: "api", ProxyURL: "http://p"}, user: KubeUser{Token: "se.cr-et~"},
		},
		{
			name: "missing token file, inline token", text: aKubeconfig("", "token: old, tokenFile: gone"),
			user: KubeUser{Token: "old"},
		},
		{
			name: "inline data before files", text: aKubeconfig("certificate-authority: gone, certificate-authority-data: QQ==, insecure-skip-tls-verify: false", "token: here, as: me, as-groups: [a, b], as-user-extra: {k: [v]}, username: u, password: p"),
			want: KubeCluster{CertificateAuthorityData: "QQ=="},
			user: KubeUser{Token: "here", As: "me", AsGroups: []string{"a", "b"}, AsUserExtra: map[string][]string{"k": {"v"}}, Username: "u", Password: "p"},
		},
		{name: "exec plugin", text: aKubeconfig("", "exec: {command: /bin/sh, apiVersion: client.authentication.k8s.io/v1}"), err: "credential plugins"},
		{name: "auth provider", text: aKubeconfig("", "auth-provider: {name: gcp}"), err: "credential plugins"},
		{name: "invalid CA file", text: aKubeconfig("certificate-authority: /etc/shadow", ""), err: "/etc/shadow: expected a certificate in PEM"},
		{name: "key instead of a certificate", text: aKubeconfig("", "client-certificate: /pki/key.pem"), err: "file does not exist"},
		{name: "invalid token file", text: aKubeconfig("", "tokenFile: /etc/shadow"), err: "/etc/shadow: expected a bearer token"},
		{name: "empty token file", text: aKubeconfig("", "tokenFile: empty"), err: "expected a bearer token"},
		{name: "missing token file", text: aKubeconfig("", "tokenFile: gone"), err: "file does not exist"},
		{name: "no context", text: "clusters: []\n", err: "no current-context"},
		{name: "unknown context", text: strings.Replace(aKubeconfig("", ""), "current-context: node", "current-context: none", 1), err: `expected exactly one context "none"`},
		{name: "duplicate user name", text: strings.Replace(aKubeconfig("", ""), "name: admin", "name: node", 1), err: `expected exactly one user "node"`},
		{name: "not YAML", text: "\t- secret", err: "it is not a kubeconfig"},
		{name: "wrong type", text: "users: secret\n", err: "it is not a kubeconfig"},
		{name: "empty", text: "", err: "no current-context"},
		{name: "too large", text: strings.Repeat("#", maxKubeconfig+1), err: "larger than 1 MiB"},
		{name: "YAML alias bomb", text: "a: &a [x,x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\nusers: [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\n", err: "it is not a kubeconfig"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var read []string
			c, err := FlattenKubeconfig("/etc/k/config", []byte(test.text), func(path string) ([]byte, error) {
				text, ok := files[path]
				if read = append(read, path); !ok {
					return nil, fs.ErrNotExist
				}
				return []byte(text), nil
			})
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) || strings.Contains(err.Error(), "secret") {
					t.Errorf("error %v, want %q", err, test.err)
				}
				if refused := errors.Is(err, ErrRefused); refused == errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%v: refused %v", err, refused)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got, err := c.Text()
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(read, filesOf("/etc/k/config", []byte(test.text))) {
				t.Errorf("Inline read %v, want %v", read, filesOf("/etc/k/config", []byte(test.text)))
			}
			test.want.Server = "https://10.0.0.1:6443"
			var k kubeDocument
			if err := yaml.Unmarshal(got, &k); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]namedCluster{{"node-dns", test.want}}, k.Clusters); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff([]namedUser{{"node-dns", test.user}}, k.Users); diff != "" {
				t.Error(diff)
			}
			if strings.Contains(string(got), "another-secret") {
				t.Errorf("the result contains credentials of other users:\n%s", got)
			}
		})
	}
}

// FuzzFlatten: a flattened kubeconfig names no file, and flattening it again changes nothing.
func FuzzFlatten(f *testing.F) {
	f.Add([]byte(aKubeconfig("certificate-authority: ca.crt", "client-certificate: c, client-key: c, tokenFile: t")))
	f.Add([]byte(aKubeconfig("", "exec: {}")))
	read := func(path string) ([]byte, error) {
		if strings.HasSuffix(path, "t") {
			return []byte("token"), nil
		}
		return []byte(certPEM + keyPEM), nil
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := FlattenKubeconfig("/k/config", data, read)
		if err != nil {
			return
		}
		got, err := c.Text()
		if err != nil {
			t.Fatal(err)
		}
		if named := filesOf("/k/config", got); len(named) > 0 {
			t.Errorf("the result names %v:\n%s", named, got)
		}
		again, err := FlattenKubeconfig("/k/config", got, read)
		if diff := cmp.Diff(c, again); err != nil || diff != "" {
			t.Errorf("%v\n%s\n%s", err, got, diff)
		}
	})
}
