package nodeconfig

import (
	"bytes"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"os"
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
