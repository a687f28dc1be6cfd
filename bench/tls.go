package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"time"

	"github.com/node-dns/node-dns/internal/test/dnstest"
)

// tlsUpstream serves the upstream nameserver over DNS over TLS with a front.
type tlsUpstream struct {
	front *server // nil before the first workload that needs it
	port  int
	ca    string
}

// start starts the front unless it runs.
func (u *tlsUpstream) start(p place, upstream int) error {
	if u.front != nil {
		return nil
	}
	at, err := dnstest.FindPort()
	if err != nil {
		return err
	}
	ca, key, err := certificate()
	if err != nil {
		return err
	}
	v := values{Upstream: upstream, CA: ca, Key: key, TLSPort: int(at.Port())}
	u.port, u.ca = v.TLSPort, ca
	u.front, err = p.serve(tlsFront, v, nil, "h00000.example.com")
	return err
}

func (u *tlsUpstream) stop() {
	if u.front != nil {
		u.front.stop()
	}
}

// certificate returns a certificate for localhost that is its own CA, and its key, as PEM.
func certificate() (ca, key string, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", "", err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		return "", "", err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return "", "", err
	}
	encode := func(kind string, data []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data}))
	}
	return encode("CERTIFICATE", der), encode("PRIVATE KEY", secret), nil
}
