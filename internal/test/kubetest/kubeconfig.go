package kubetest

import (
	"encoding/base64"
	"encoding/pem"
	"fmt"
)

// URL returns the server's URL.
func (s *Server) URL() string { return s.listener.URL }

// CA returns the certificate that verifies the server's, in PEM.
func (s *Server) CA() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.listener.Certificate().Raw})
}

// Kubeconfig returns a kubeconfig file for the server, with its token.
func (s *Server) Kubeconfig() []byte {
	s.mu.Lock()
	token := s.token
	s.mu.Unlock()
	if token == "" {
		token = "unused"
	}
	return fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters:
- name: test
  cluster:
    server: %s
    certificate-authority-data: %s
    tls-server-name: example.com # of httptest's certificate
users:
- name: test
  user:
    token: %s
contexts:
- name: test
  context: {cluster: test, user: test}
current-context: test
`, s.URL(), base64.StdEncoding.EncodeToString(s.CA()), token)
}
