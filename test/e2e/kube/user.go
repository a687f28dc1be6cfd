package kube

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// NodeName is the node that the daemon under test runs on.
const NodeName = "node-1"

// User is somebody whom the API knows by a client certificate.
type User struct {
	Name   string
	Groups []string
	Until  time.Time // the certificate's end; zero: tomorrow
}

// Admin may do everything.
func Admin() User { return User{Name: "admin", Groups: []string{"system:masters"}} }

// Reader may do what the ClusterRole of contrib/cluster-role.yaml says, once BindReader was called.
func Reader() User { return User{Name: "system:serviceaccount:kube-system:node-dns"} }

// Node is the kubelet: without that ClusterRole it may watch services, but no slices and no namespaces.
func Node() User { return User{Name: "system:node:" + NodeName, Groups: []string{"system:nodes"}} }

// Nobody is known, and may do nothing.
func Nobody() User { return User{Name: "nobody"} }

// Kubeconfig is a kubeconfig that holds the user's certificate.
func (c *Cluster) Kubeconfig(u User) ([]byte, error) {
	p, err := c.authority.client(u)
	if err != nil {
		return nil, err
	}
	return c.kubeconfig(api.AuthInfo{ClientCertificateData: p.certificate, ClientKeyData: p.key})
}

// The files of WriteKubeconfig.
const (
	KubeconfigFile  = "kubeconfig"
	certificateFile = "client.crt"
	keyFile         = "client.key"
)

// WriteKubeconfig puts a kubeconfig into dir that names the files of the user's certificate, which are put there too.
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

// WriteCertificate puts a new certificate of the user into dir, as a kubelet does when it rotates its own: the
// kubeconfig stays as it is.
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

// tokenFile is the token of WriteTokenKubeconfig.
const tokenFile = "token"

// WriteTokenKubeconfig puts a kubeconfig into dir that names a file with a token of a ServiceAccount, which is put there too. The
// account must exist.
func (c *Cluster) WriteTokenKubeconfig(ctx context.Context, dir, namespace, account string) error {
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

// URL is where the API is.
func (c *Cluster) URL() string { return fmt.Sprintf("https://127.0.0.1:%d", c.ports.api) }

// replace writes a file whole, as those who renew certificates do.
func replace(name string, data []byte) error {
	if err := os.WriteFile(name+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}
