package nodeconfig

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// certificate returns a client certificate, valid from 2026 to 2027.
func certificate(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotBefore:    time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), NotAfter: time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// kubeconfigOf returns a kubeconfig with these user settings.
func kubeconfigOf(user string) string {
	return "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: \"https://10.0.0.1:6443\"}}]\n" +
		"contexts: [{name: c, context: {cluster: c, user: u}}]\ncurrent-context: c\nusers: [{name: u, user: {" + user + "}}]\n"
}

// TestReadCredentials: a certificate in the kubeconfig or in a file is read. A missing one is an
// error only if the kubeconfig names it.
func TestReadCredentials(t *testing.T) {
	text := certificate(t)
	block, _ := pem.Decode([]byte(text))
	for _, row := range []struct {
		name, user string
		want       bool // whether there is a certificate
		fault      string
	}{
		{"token", "token: secret", false, ""},
		{"within", "client-certificate-data: " + base64.StdEncoding.EncodeToString([]byte(text)), true, ""},
		{"beside", "client-certificate: client.pem", true, ""},
		{"exec plugin", "exec: {command: aws}", false, ""},
		{"missing certificate file", "client-certificate: none.pem", false, "none.pem: no such file"},
		{"key instead of a certificate", "client-certificate: key.pem", false, "expected a certificate in PEM"},
		{"not base64", "client-certificate-data: '!'", false, "reading the client certificate of "},
		{"not PEM", "client-certificate-data: AAAA", false, "reading the client certificate of "},
	} {
		t.Run(row.name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "kubeconfig")
			for name, data := range map[string]string{
				"kubeconfig": kubeconfigOf(row.user), "client.pem": text, "key.pem": "secret",
			} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			c, err := ReadCredentials(Paths{Root: dir}, path)
			if (err != nil) != (row.fault != "") || err != nil && !strings.Contains(err.Error(), row.fault) || err != nil && strings.Contains(err.Error(), "secret") {
				t.Fatalf("%v, expected %q", err, row.fault)
			}
			if c.Server != "https://10.0.0.1:6443" || (c.ClientCertificate != nil) != row.want || row.want && !bytes.Equal(c.ClientCertificate, block.Bytes) {
				t.Errorf("%+v", c)
			}
		})
	}
	if _, err := ReadCredentials(Paths{}, filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("no error for a missing kubeconfig")
	}
}
