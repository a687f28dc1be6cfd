package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/node-dns/node-dns/internal/nodeconfig"
)

// The limits of client-go's transport.
const (
	tlsHandshakeTimeout = 10 * time.Second
	idleTimeout         = 90 * time.Second
	idleConnections     = 25
	// pingAfter and pingTimeout find an HTTP/2 connection that no longer exists, which the kernel
	// would keep for a quarter of an hour.
	pingAfter   = 30 * time.Second
	pingTimeout = 15 * time.Second
)

// way describes how to reach an API server, equivalent to the result of client-go's clientcmd, rest
// and transport for a kubeconfig. client-go's transport is not used, because it adds a second
// HTTP/2, klog and OAuth to the program: 1 MB.
type way struct {
	server    *url.URL // its scheme, host and path
	ca        []byte   // PEM; empty means those of the system
	transport *http.Transport
	header    http.Header // credentials in each request
}

// newWay builds a way from a kubeconfig that names no files.
func newWay(config nodeconfig.KubeContext, dial func(ctx context.Context, network, address string) (net.Conn, error)) (way, error) {
	server, err := serverURL(config.Cluster.Server)
	if err != nil {
		return way{}, err
	}
	w := way{server: server, transport: &http.Transport{
		DialContext:         dial,
		DisableCompression:  config.Cluster.DisableCompression,
		ForceAttemptHTTP2:   true,
		HTTP2:               &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
		IdleConnTimeout:     idleTimeout,
		MaxIdleConnsPerHost: idleConnections,
		Proxy:               http.ProxyFromEnvironment,
		TLSHandshakeTimeout: tlsHandshakeTimeout,
	}}
	if config.Cluster.ProxyURL != "" {
		proxy, err := proxyURL(config.Cluster.ProxyURL)
		if err != nil {
			return way{}, err
		}
		w.transport.Proxy = http.ProxyURL(proxy)
	}
	user := config.User
	if user.As == "" && (user.AsUID != "" || len(user.AsGroups)+len(user.AsUserExtra) > 0) {
		return way{}, errors.New("as-uid, as-groups and as-user-extra require as")
	}
	w.header = impersonation(user)
	if server.Scheme == "http" {
		return w, nil // no credentials over HTTP, as in client-go
	}
	if err := w.authenticate(user); err != nil {
		return way{}, err
	}
	return w, w.useTLS(config.Cluster, user)
}

// impersonation returns the headers that make the API server act for another user.
func impersonation(user nodeconfig.KubeUser) http.Header {
	header := http.Header{}
	for key, value := range map[string]string{"Impersonate-User": user.As, "Impersonate-Uid": user.AsUID} {
		if value != "" {
			header.Set(key, value)
		}
	}
	for _, group := range user.AsGroups {
		header.Add("Impersonate-Group", group)
	}
	for key, values := range user.AsUserExtra {
		for _, value := range values {
			header.Add("Impersonate-Extra-"+escapeKey(key), value)
		}
	}
	return header
}

// escapeKey escapes each byte that may not occur in a header's name (RFC 9110 section 5.6.2), and
// "%", so that the API server can reverse it.
func escapeKey(key string) string {
	var escaped strings.Builder
	for _, b := range []byte(key) {
		isLetter, isDigit := 'a' <= b|0x20 && b|0x20 <= 'z', '0' <= b && b <= '9'
		if isLetter || isDigit || strings.IndexByte("!#$&'*+-.^_`|~", b) >= 0 {
			escaped.WriteByte(b)
		} else {
			fmt.Fprintf(&escaped, "%%%02X", b)
		}
	}
	return escaped.String()
}

// authenticate adds the password or the token.
func (w *way) authenticate(user nodeconfig.KubeUser) error {
	switch {
	case user.Username != "" && user.Token != "":
		return errors.New("username and token are set; expected one of them")
	case user.Token != "":
		w.header.Set("Authorization", "Bearer "+user.Token)
	case user.Username != "":
		w.header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(user.Username+":"+user.Password)))
	}
	return nil
}

// useTLS adds the server's CA and the client certificate. TLS 1.2 is the oldest version, as in
// client-go.
func (w *way) useTLS(cluster nodeconfig.KubeCluster, user nodeconfig.KubeUser) error {
	config := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: cluster.InsecureSkipTLSVerify, ServerName: cluster.TLSServerName}
	ca, err1 := octets("certificate-authority-data", cluster.CertificateAuthorityData)
	certificate, err2 := octets("client-certificate-data", user.ClientCertificateData)
	key, err3 := octets("client-key-data", user.ClientKeyData)
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	switch {
	case len(certificate) > 0 && len(key) == 0:
		return errors.New("client-certificate is set, but client-key is missing")
	case len(ca) > 0 && cluster.InsecureSkipTLSVerify:
		return errors.New("certificate-authority and insecure-skip-tls-verify are set; expected one of them")
	case len(ca) > 0:
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(ca) {
			return errors.New("certificate-authority: expected certificates in PEM")
		}
	}
	if len(certificate) > 0 {
		pair, err := tls.X509KeyPair(certificate, key)
		if err != nil {
			return fmt.Errorf("client-certificate: %w", err)
		}
		// Certificates would send it only to a server that names its issuer.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}
	w.ca, w.transport.TLSClientConfig = ca, config
	return nil
}

// serverURL parses the server's address. client-go uses plain HTTP for an address without a scheme.
// That is rejected here, because it is never intended.
func serverURL(text string) (*url.URL, error) {
	server, err := url.Parse(text)
	if err != nil || server.Host == "" || server.Scheme != "http" && server.Scheme != "https" {
		return nil, fmt.Errorf("server %q: expected https://HOST:PORT", text)
	}
	return &url.URL{Scheme: server.Scheme, Host: server.Host, Path: server.Path}, nil
}

func proxyURL(text string) (*url.URL, error) {
	proxy, err := url.Parse(text)
	if err != nil || proxy.Host == "" || !slices.Contains([]string{"http", "https", "socks5"}, proxy.Scheme) {
		return nil, errors.New("proxy-url: expected http://, https:// or socks5://, and a host") // the URL may contain a password
	}
	return proxy, nil
}

func octets(key, text string) ([]byte, error) {
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("%s: expected base64", key)
	}
	return data, nil
}
