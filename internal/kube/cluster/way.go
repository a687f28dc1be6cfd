package cluster

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"

	"k8s.io/client-go/transport"

	"github.com/node-dns/node-dns/internal/kube/kubeconfig"
)

// way describes how to reach an API server, equivalent to the result of client-go's clientcmd and
// rest for a kubeconfig.
type way struct {
	server    *url.URL // its scheme, host and path
	transport transport.Config
}

// newWay builds a way from a kubeconfig that names no files.
func newWay(config kubeconfig.Config, dial func(ctx context.Context, network, address string) (net.Conn, error)) (way, error) {
	server, err := serverURL(config.Cluster.Server)
	if err != nil {
		return way{}, err
	}
	w := way{server: server, transport: transport.Config{
		DisableCompression: config.Cluster.DisableCompression,
		DialHolder:         &transport.DialHolder{Dial: dial},
		Proxy:              http.ProxyFromEnvironment, // a function here keeps the transport out of client-go's cache, which never evicts
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
	w.transport.Impersonate = transport.ImpersonationConfig{UserName: user.As, UID: user.AsUID, Groups: user.AsGroups, Extra: user.AsUserExtra}
	if server.Scheme == "http" {
		return w, nil // no credentials over HTTP, as in client-go
	}
	w.transport.TLS = transport.TLSConfig{Insecure: config.Cluster.InsecureSkipTLSVerify, ServerName: config.Cluster.TLSServerName}
	if w.transport.TLS.CAData, err = octets("certificate-authority-data", config.Cluster.CertificateAuthorityData); err != nil {
		return way{}, err
	}
	return w, w.addCredentials(user)
}

func (w *way) addCredentials(user kubeconfig.User) (err error) {
	t := &w.transport
	if t.TLS.CertData, err = octets("client-certificate-data", user.ClientCertificateData); err != nil {
		return err
	}
	if t.TLS.KeyData, err = octets("client-key-data", user.ClientKeyData); err != nil {
		return err
	}
	if len(t.TLS.CertData) > 0 && len(t.TLS.KeyData) == 0 {
		return errors.New("client-certificate is set, but client-key is missing")
	}
	t.Username, t.Password, t.BearerToken = user.Username, user.Password, user.Token
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
