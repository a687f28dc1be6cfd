package kube

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

// authority is the CA of one control plane. It is immutable.
type authority struct {
	certificate *x509.Certificate
	key         crypto.Signer
	pem         []byte
}

// pair is a certificate and its key in PEM.
type pair struct{ certificate, key []byte }

func newAuthority() (*authority, error) {
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "node-dns test authority"},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(24 * time.Hour),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	a := &authority{certificate: template, key: key}
	der, err := a.sign(template, key)
	if err != nil {
		return nil, err
	}
	a.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	a.certificate, err = x509.ParseCertificate(der)
	return a, err
}

// server issues the API server's certificate, for loopback and for pods.
func (a *authority) server() (pair, error) {
	return a.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: "kube-apiserver"},
		NotAfter:    time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.ParseIP(ServiceAddr)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
}

// client issues a client certificate that identifies a user to the API: its common name is the user
// name, its organizations are the groups
// (kubernetes.io/docs/reference/access-authn-authz/authentication, "X.509 client certificates").
func (a *authority) client(u User) (pair, error) {
	end := u.Until
	if end.IsZero() {
		end = time.Now().Add(24 * time.Hour)
	}
	return a.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: u.Name, Organization: u.Groups},
		NotAfter:    end,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

func (a *authority) issue(template *x509.Certificate) (pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair{}, err
	}
	template.NotBefore = time.Now().Add(-time.Hour)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	der, err := a.sign(template, key)
	if err != nil {
		return pair{}, fmt.Errorf("issuing a certificate for %s: %w", template.Subject, err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return pair{}, err
	}
	return pair{
		certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		key:         pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}),
	}, nil
}

func (a *authority) sign(template *x509.Certificate, key crypto.Signer) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	return x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
}
