package nodeconfig

import (
	"bytes"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"strings"
	"time"
)

// Credentials are of a kubeconfig what an admin wants to know. No secret is among them.
type Credentials struct {
	Server string // the URL
	// NotBefore and NotAfter are the client certificate's; zero: there is none.
	NotBefore, NotAfter time.Time
}

// ReadCredentials reads the kubeconfig at path, and the client certificate that it has or names. Those of a plugin are not asked
// for.
func ReadCredentials(path string) (Credentials, error) {
	data, _, err := readFile(path)
	if err != nil {
		return Credentials{}, err
	}
	cluster, user, err := parseKubeconfig(data)
	if err != nil {
		return Credentials{}, fmt.Errorf("reading %s: %s", path, strings.TrimPrefix(err.Error(), errRefused.Error()+": ")) // nothing is handed over here
	}
	c := Credentials{Server: cluster.Server}
	for _, file := range namedFiles(&cluster, &user) {
		named := beside(path, *file.path)
		content, _, err := readFile(named)
		if err == nil {
			*file.data, err = file.content(content)
		}
		if err != nil {
			return c, fmt.Errorf("reading %s, which %s names: %w", named, path, err)
		}
	}
	if user.ClientCertificateData == "" {
		return c, nil
	}
	text, err := base64.StdEncoding.DecodeString(user.ClientCertificateData)
	if err != nil {
		return c, fmt.Errorf("reading the client certificate of %s: %w", path, err)
	}
	block, _ := pem.Decode(bytes.TrimSpace(text))
	if block == nil {
		return c, fmt.Errorf("reading the client certificate of %s: expected PEM", path)
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return c, fmt.Errorf("reading the client certificate of %s: %w", path, err)
	}
	c.NotBefore, c.NotAfter = certificate.NotBefore, certificate.NotAfter
	return c, nil
}
