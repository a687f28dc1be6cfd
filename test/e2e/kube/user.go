package kube

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// NodeName is the node of the tested daemon.
const NodeName = "node-1"

// User is an API user with a client certificate.
type User struct {
	Name   string
	Groups []string
	Until  time.Time // expiry of the certificate; zero means tomorrow
}

// Admin returns a user with all rights.
func Admin() User { return User{Name: "admin", Groups: []string{"system:masters"}} }

// Reader returns a user with the rights of the ClusterRole in contrib/cluster-role.yaml, after
// BindReader was called.
func Reader() User { return User{Name: "system:serviceaccount:kube-system:node-dns"} }

// Node returns the kubelet's user. Without that ClusterRole it may watch services, but not slices
// or namespaces.
func Node() User { return User{Name: "system:node:" + NodeName, Groups: []string{"system:nodes"}} }

// Nobody returns a valid user without any rights.
func Nobody() User { return User{Name: "nobody"} }

// Kubeconfig returns a kubeconfig that contains the user's certificate.
func (c *Cluster) Kubeconfig(u User) ([]byte, error) {
	p, err := c.authority.client(u)
	if err != nil {
		return nil, err
	}
	return c.kubeconfig(api.AuthInfo{ClientCertificateData: p.certificate, ClientKeyData: p.key})
}

// Names of the files of WriteKubeconfig.
const (
	KubeconfigFile  = "kubeconfig"
	certificateFile = "client.crt"
	keyFile         = "client.key"
)

// WriteKubeconfig writes the user's certificate files to dir, and a kubeconfig that names them.
func (c *Cluster) WriteKubeconfig(dir string, u User) error {
	if err := c.WriteCertificate(dir, u); err != nil {
		return err
	}
	kubeconfig, err := c.kubeconfig(api.AuthInfo{ClientCertificate: certificateFile, ClientKey: keyFile})
	if err != nil {
		return err
	}
	return replace(filepath.Join(dir, KubeconfigFile), kubeconfig)
}

// WriteCertificate writes a new certificate of the user to dir, like a kubelet that rotates its
// own. The kubeconfig stays as it is.
func (c *Cluster) WriteCertificate(dir string, u User) error {
	p, err := c.authority.client(u)
	if err != nil {
		return err
	}
	if err := replace(filepath.Join(dir, keyFile), p.key); err != nil {
		return err
	}
	return replace(filepath.Join(dir, certificateFile), p.certificate)
}

// Files of WriteServiceAccount, as in a pod.
const (
	tokenFile     = "token"
	authorityFile = "ca.crt"
)

// WriteServiceAccount writes to dir what the kubelet mounts in a pod of a ServiceAccount. The
// account must exist.
func (c *Cluster) WriteServiceAccount(ctx context.Context, dir, namespace, account string) error {
	accounts := c.dynamic.Resource(schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}).Namespace(namespace)
	request := &Object{Object: map[string]any{
		"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": map[string]any{"name": account},
		"spec": map[string]any{"expirationSeconds": int64(3600)},
	}}
	answer, err := accounts.Create(ctx, request, metav1.CreateOptions{}, "token")
	if err != nil {
		return fmt.Errorf("requesting a token of %s/%s: %w", namespace, account, err)
	}
	token, _, err := unstructured.NestedString(answer.Object, "status", "token")
	if err != nil {
		return err
	}
	if err := replace(filepath.Join(dir, tokenFile), []byte(token)); err != nil {
		return err
	}
	return replace(filepath.Join(dir, authorityFile), c.authority.pem)
}

// WriteTokenKubeconfig writes the files of WriteServiceAccount to dir, and a kubeconfig that names
// the token file.
func (c *Cluster) WriteTokenKubeconfig(ctx context.Context, dir, namespace, account string) error {
	if err := c.WriteServiceAccount(ctx, dir, namespace, account); err != nil {
		return err
	}
	kubeconfig, err := c.kubeconfig(api.AuthInfo{TokenFile: tokenFile})
	if err != nil {
		return err
	}
	return replace(filepath.Join(dir, KubeconfigFile), kubeconfig)
}

func (c *Cluster) kubeconfig(user api.AuthInfo) ([]byte, error) {
	const name = "kube"
	config := api.NewConfig()
	config.Clusters[name] = &api.Cluster{Server: c.URL(), CertificateAuthorityData: c.authority.pem}
	config.AuthInfos[name] = &user
	config.Contexts[name] = &api.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	return clientcmd.Write(*config)
}

// URL returns the URL of the API.
func (c *Cluster) URL() string { return fmt.Sprintf("https://127.0.0.1:%d", c.ports.api) }

// replace replaces a file atomically, like programs that renew certificates.
func replace(name string, data []byte) error {
	if err := os.WriteFile(name+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}

// Transport returns a transport to the API with all rights, over HTTP/1.1, so that a proxy can use
// it for connections that change the protocol.
func (c *Cluster) Transport() (http.RoundTripper, error) {
	config := rest.CopyConfig(c.admin)
	config.NextProtos = []string{"http/1.1"}
	return rest.TransportFor(config)
}
