package dnstest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"time"
)

// TLSName is the authentication name in the certificate of StartTLS, besides the IP address.
const TLSName = "nameserver.invalid"

// StartTLS is Start for DNS over TLS (RFC 7858). The server listens only on TCP, with a certificate
// from its own CA for TLSName and its address.
func StartTLS(records string) (*Server, error) {
	loopback := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	certificate, pool, err := certify(loopback)
	if err != nil {
		return nil, fmt.Errorf("starting a nameserver: making its certificate: %w", err)
	}
	secure := &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12, NextProtos: []string{"dot"}}
	return start(&Server{addr: netip.AddrPortFrom(loopback, 0), secure: secure, pool: pool}, records)
}

// NewTLSServer is StartTLS for a test. It fails the test on an error and closes the server at the
// end of the test.
func NewTLSServer(t TB, records string) *Server {
	t.Helper()
	s, err := StartTLS(records)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(s.Close)
	return s
}

// CertPool returns the CA of the server's certificate, or nil without TLS.
func (s *Server) CertPool() *x509.CertPool { return s.pool }

func certify(addr netip.Addr) (tls.Certificate, *x509.CertPool, error) {
	none := tls.Certificate{}
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return none, nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return none, nil, err
	}
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "dnstest CA"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: TLSName},
		NotBefore: ca.NotBefore, NotAfter: ca.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames: []string{TLSName}, IPAddresses: []net.IP{addr.AsSlice()},
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey)
	if err != nil {
		return none, nil, err
	}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, ca, key.Public(), caKey)
	if err != nil {
		return none, nil, err
	}
	root, err := x509.ParseCertificate(caDER)
	if err != nil {
		return none, nil, err
	}
	pool := x509.NewCertPool()
	pool.AddCert(root)
	return tls.Certificate{Certificate: [][]byte{leafDER}, PrivateKey: key}, pool, nil
}
