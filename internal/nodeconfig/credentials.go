package nodeconfig

import (
	"bytes"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
)

// Credentials are the parts of a kubeconfig that an admin needs to know. They contain no secrets.
type Credentials struct {
	Server string // URL
	// ClientCertificate is in DER, not parsed: package x509 would make up a sixth of the hook. It
	// is nil if there is none.
	ClientCertificate []byte
}

// ReadCredentials reads the kubeconfig at path, and the client certificate in it or in a file that
// it names. It does not run plugins. As root it reads only trusted files, like RootsKubeconfig.
func ReadCredentials(paths Paths, path string) (Credentials, error) {
	read := func(path string) ([]byte, error) {
		if os.Geteuid() == 0 {
			return readTrusted(paths, path)
		}
		data, _, err := readFile(path)
		return data, err
	}
	data, err := read(path)
	if err != nil {
		return Credentials{}, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	k, err := parseKubeconfig(data)
	if err != nil {
		return Credentials{}, fmt.Errorf("reading %s: %w", path, err)
	}
	c := Credentials{Server: k.Cluster.Server}
	if err := k.Inline(path, read); err != nil {
		return c, fmt.Errorf("reading the files that %s names: %w", path, err)
	}
	if k.User.ClientCertificateData == "" {
		return c, nil
	}
	text, err := base64.StdEncoding.DecodeString(k.User.ClientCertificateData)
	if err != nil {
		return c, fmt.Errorf("reading the client certificate of %s: %w", path, err)
	}
	block, _ := pem.Decode(bytes.TrimSpace(text))
	if block == nil {
		return c, fmt.Errorf("reading the client certificate of %s: expected PEM", path)
	}
	c.ClientCertificate = block.Bytes
	return c, nil
}

// ServiceAccountDir is where Kubernetes mounts a pod's credentials
// (https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/).
const ServiceAccountDir = "/var/run/secrets/kubernetes.io/serviceaccount"

// ServiceAccount returns a kubeconfig for the pod that this process runs in: the credentials of its
// ServiceAccount below root, which Kubernetes renews, for the API at server, as HOST:PORT. The
// error wraps fs.ErrNotExist if the pod has none.
func ServiceAccount(root, server string) ([]byte, error) {
	dir := filepath.Join("/", root, ServiceAccountDir)
	token := filepath.Join(dir, "token")
	if _, err := os.Stat(token); err != nil {
		return nil, fmt.Errorf("looking for the ServiceAccount: %w", err)
	}
	return KubeContext{
		Cluster: KubeCluster{Server: "https://" + server, CertificateAuthority: filepath.Join(dir, "ca.crt")},
		User:    KubeUser{TokenFile: token},
	}.Text()
}
