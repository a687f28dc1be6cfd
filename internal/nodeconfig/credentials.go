package nodeconfig

import (
	"bytes"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"os"

	"github.com/node-dns/node-dns/internal/kube/kubeconfig"
)

// Credentials are of a kubeconfig what an admin wants to know. No secret is among them.
type Credentials struct {
	Server string // the URL
	// ClientCertificate is in DER, and not parsed: package x509 would be a sixth of the hook. nil: there is none.
	ClientCertificate []byte
}

// ReadCredentials reads the kubeconfig at path, and the client certificate that it has or names. Those of a plugin are not asked
// for. Root reads trusted files only, as for RootsKubeconfig.
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
	k, err := kubeconfig.Parse(data)
	if err != nil {
		return Credentials{}, fmt.Errorf("reading %s: %w", path, err)
	}
	c := Credentials{Server: k.Cluster.Server}
	if err := k.Inline(path, read); err != nil {
		return c, fmt.Errorf("reading what %s names: %w", path, err)
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
