package nodeconfig

import (
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// namedFile is a file that a kubeconfig names, and the key for its inlined content.
type namedFile struct {
	path    *string
	data    *string
	content func([]byte) (string, error)
}

// named returns the files that are in effect. As in client-go, a -data key overrides its file, but
// tokenFile overrides token.
func (c *KubeContext) named() []namedFile {
	var files []namedFile
	add := func(path, data *string, content func([]byte) (string, error)) {
		if *path != "" && (*data == "" || data == &c.User.Token) {
			files = append(files, namedFile{path, data, content})
		}
		if *data != "" && data != &c.User.Token {
			*path = ""
		}
	}
	add(&c.Cluster.CertificateAuthority, &c.Cluster.CertificateAuthorityData, asCertificates)
	add(&c.User.ClientCertificate, &c.User.ClientCertificateData, asCertificates)
	add(&c.User.ClientKey, &c.User.ClientKeyData, asKey)
	add(&c.User.TokenFile, &c.User.Token, asToken)
	return files
}

// filesOf returns the absolute paths of the files that a kubeconfig at path names. An invalid
// kubeconfig names none.
func filesOf(path string, data []byte) []string {
	c, err := parseKubeconfig(data)
	if err != nil {
		return nil
	}
	var paths []string
	for _, file := range c.named() {
		paths = append(paths, beside(path, *file.path))
	}
	return paths
}

// beside resolves a path in a kubeconfig relative to the kubeconfig's directory.
func beside(kubeconfig, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(filepath.Dir(kubeconfig), path)
}

// Inline replaces the files that c names by their contents. c is from the kubeconfig at path, and
// read reads a file. A file with unexpected content is refused. As in client-go, an unreadable
// token file is ignored if c also has a token.
func (c *KubeContext) Inline(path string, read func(path string) ([]byte, error)) error {
	for _, file := range c.named() {
		from := beside(path, *file.path)
		content, err := read(from)
		if err != nil && file.path == &c.User.TokenFile && c.User.Token != "" && !errors.Is(err, ErrRefused) {
			*file.path = ""
			continue
		}
		if err != nil {
			return err
		}
		if *file.data, err = file.content(content); err != nil {
			return refuse("%s: %w", from, err)
		}
		*file.path = ""
	}
	return nil
}

// FlattenKubeconfig returns the current context of the kubeconfig at path, with its files inlined.
// Plugins are refused: they are programs that run with their own privileges and environment.
func FlattenKubeconfig(path string, data []byte, read func(path string) ([]byte, error)) (KubeContext, error) {
	c, err := parseKubeconfig(data)
	if err != nil {
		return c, err
	}
	if c.User.Exec != nil || c.User.AuthProvider != nil {
		return c, refuse("%w", ErrPlugin)
	}
	return c, c.Inline(path, read)
}

// asCertificates, asKey and asToken return the expected content of a file and reject everything
// else. A symlink or a mistake must not pass the content of another file on.
func asCertificates(data []byte) (string, error) {
	return asPEM(data, "a certificate", func(kind string) bool { return kind == "CERTIFICATE" })
}

func asKey(data []byte) (string, error) {
	return asPEM(data, "a private key", func(kind string) bool { return kind == "PRIVATE KEY" || strings.HasSuffix(kind, " PRIVATE KEY") })
}

func asPEM(data []byte, what string, is func(kind string) bool) (string, error) {
	var text []byte
	for {
		block, rest := pem.Decode(data)
		if block == nil {
			break
		}
		if is(block.Type) {
			text = append(text, pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes})...)
		}
		data = rest
	}
	if len(text) == 0 {
		return "", fmt.Errorf("expected %s in PEM", what)
	}
	return base64.StdEncoding.EncodeToString(text), nil
}

// maxToken bounds a token, in bytes. A ServiceAccount token has about 1000.
const maxToken = 64 << 10

// asToken accepts only the characters of RFC 6750, section 2.1.
func asToken(data []byte) (string, error) {
	token := strings.TrimSpace(string(data))
	isOther := func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-._~+/=", r))
	}
	if token == "" || len(token) > maxToken || strings.ContainsFunc(token, isOther) {
		return "", errors.New("expected a bearer token")
	}
	return token, nil
}
