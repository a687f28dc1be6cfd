package nodeconfig

import (
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"gopkg.in/yaml.v3"
)

// kubeconfig is of a kubeconfig (client-go tools/clientcmd/api/v1) what it takes to ask one API server.
type kubeconfig struct {
	APIVersion     string         `yaml:"apiVersion"`
	Kind           string         `yaml:"kind"`
	Clusters       []namedCluster `yaml:"clusters"`
	Contexts       []namedContext `yaml:"contexts"`
	CurrentContext string         `yaml:"current-context"`
	Users          []namedUser    `yaml:"users"`
}

type namedCluster struct {
	Name    string      `yaml:"name"`
	Cluster kubeCluster `yaml:"cluster"`
}

type namedContext struct {
	Name    string `yaml:"name"`
	Context struct {
		Cluster string `yaml:"cluster"`
		User    string `yaml:"user"`
	} `yaml:"context"`
}

type namedUser struct {
	Name string   `yaml:"name"`
	User kubeUser `yaml:"user"`
}

type kubeCluster struct {
	Server                   string `yaml:"server"`
	TLSServerName            string `yaml:"tls-server-name,omitempty"`
	InsecureSkipTLSVerify    bool   `yaml:"insecure-skip-tls-verify,omitempty"`
	CertificateAuthority     string `yaml:"certificate-authority,omitempty"`
	CertificateAuthorityData string `yaml:"certificate-authority-data,omitempty"`
	ProxyURL                 string `yaml:"proxy-url,omitempty"`
	DisableCompression       bool   `yaml:"disable-compression,omitempty"`
}

type kubeUser struct {
	ClientCertificate     string              `yaml:"client-certificate,omitempty"`
	ClientCertificateData string              `yaml:"client-certificate-data,omitempty"`
	ClientKey             string              `yaml:"client-key,omitempty"`
	ClientKeyData         string              `yaml:"client-key-data,omitempty"`
	Token                 string              `yaml:"token,omitempty"`
	TokenFile             string              `yaml:"tokenFile,omitempty"`
	As                    string              `yaml:"as,omitempty"`
	AsUID                 string              `yaml:"as-uid,omitempty"`
	AsGroups              []string            `yaml:"as-groups,omitempty"`
	AsUserExtra           map[string][]string `yaml:"as-user-extra,omitempty"`
	Username              string              `yaml:"username,omitempty"`
	Password              string              `yaml:"password,omitempty"`
	AuthProvider          *yaml.Node          `yaml:"auth-provider,omitempty"`
	Exec                  *yaml.Node          `yaml:"exec,omitempty"`
}

var (
	// ErrRefused is matched by credentials that root neither hands over nor uses, however often it is tried.
	ErrRefused = errors.New("refused")
	// ErrPlugin is the ErrRefused of credentials that a program has to fetch.
	ErrPlugin = errors.New("credentials come from a plugin (exec, auth-provider)")
)

// refusal matches ErrRefused, without its text.
type refusal struct{ error }

// Is implements the interface of errors.Is.
func (refusal) Is(target error) bool { return target == ErrRefused }

// Unwrap implements the interface of errors.Is.
func (r refusal) Unwrap() error { return r.error }

func refuse(format string, args ...any) error { return refusal{fmt.Errorf(format, args...)} }

// parseKubeconfig reads a kubeconfig and keeps its current context: one cluster and one user, and no credentials for
// others. Keys that it does not know pass, as with client-go.
func parseKubeconfig(data []byte) (cluster kubeCluster, user kubeUser, err error) {
	defer func() {
		if p := recover(); p != nil { // see decode
			err = refuse("parsing YAML: %v", p)
		}
	}()
	if len(data) > maxFile {
		return cluster, user, refuse("it is larger than 1 MiB")
	}
	var k kubeconfig
	documents, err := decode(data)
	if err == nil && len(documents) > 0 {
		err = documents[0].Decode(&k)
	}
	if err != nil {
		return cluster, user, refuse("it is no kubeconfig") // yaml.v3 quotes what it read, and that may be a secret
	}
	var context namedContext
	if !pick(k.Contexts, func(c namedContext) string { return c.Name }, k.CurrentContext, &context) {
		return cluster, user, refuse("it has not one context %q, its current-context", k.CurrentContext)
	}
	var c namedCluster
	if !pick(k.Clusters, func(c namedCluster) string { return c.Name }, context.Context.Cluster, &c) {
		return cluster, user, refuse("it has not one cluster %q, which its current context names", context.Context.Cluster)
	}
	var u namedUser
	if !pick(k.Users, func(u namedUser) string { return u.Name }, context.Context.User, &u) {
		return cluster, user, refuse("it has not one user %q, whom its current context names", context.Context.User)
	}
	return c.Cluster, u.User, nil
}

// pick finds the one element of that name.
func pick[T any](list []T, nameOf func(T) string, name string, out *T) bool {
	count := 0
	for _, element := range list {
		if nameOf(element) == name && name != "" {
			*out = element
			count++
		}
	}
	return count == 1
}

// inlined is a file that a kubeconfig names, and the key that holds its content in its place.
type inlined struct {
	path    *string
	data    *string
	content func([]byte) (string, error)
}

// namedFiles are those that count: a key that ends in -data wins over its file, as with client-go, but tokenFile over token.
func namedFiles(cluster *kubeCluster, user *kubeUser) []inlined {
	var named []inlined
	add := func(path, data *string, content func([]byte) (string, error)) {
		if *path != "" && (*data == "" || data == &user.Token) {
			named = append(named, inlined{path, data, content})
		}
		if *data != "" && data != &user.Token {
			*path = ""
		}
	}
	add(&cluster.CertificateAuthority, &cluster.CertificateAuthorityData, asCertificates)
	add(&user.ClientCertificate, &user.ClientCertificateData, asCertificates)
	add(&user.ClientKey, &user.ClientKeyData, asKey)
	add(&user.TokenFile, &user.Token, asToken)
	return named
}

// kubeconfigFiles are the files that a kubeconfig at path names, made absolute. One that makes no sense names none.
func kubeconfigFiles(path string, data []byte) []string {
	cluster, user, err := parseKubeconfig(data)
	if err != nil {
		return nil
	}
	var paths []string
	for _, file := range namedFiles(&cluster, &user) {
		paths = append(paths, beside(path, *file.path))
	}
	return paths
}

// beside is a path that a kubeconfig names, relative to the kubeconfig's directory.
func beside(kubeconfig, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(filepath.Dir(kubeconfig), path)
}

// flatten is the kubeconfig at path with the files that it names in it, and nothing but its current context. Plugins are
// refused: they are programs, which run with rights and environments of their own.
func flatten(path string, data []byte, read func(path string) ([]byte, error)) ([]byte, error) {
	cluster, user, err := parseKubeconfig(data)
	if err != nil {
		return nil, err
	}
	if user.Exec != nil || user.AuthProvider != nil {
		return nil, refuse("%w, which root does not run: give node-dns a token or a certificate of its own", ErrPlugin)
	}
	for _, file := range namedFiles(&cluster, &user) {
		named := beside(path, *file.path)
		content, err := read(named)
		if err != nil {
			return nil, err
		}
		if *file.data, err = file.content(content); err != nil {
			return nil, refuse("%s: %w", named, err)
		}
		*file.path = ""
	}
	k := kubeconfig{APIVersion: "v1", Kind: "Config", CurrentContext: "node-dns"}
	k.Clusters = []namedCluster{{"node-dns", cluster}}
	k.Users = []namedUser{{"node-dns", user}}
	k.Contexts = []namedContext{{Name: "node-dns"}}
	k.Contexts[0].Context.Cluster, k.Contexts[0].Context.User = "node-dns", "node-dns"
	return yaml.Marshal(k)
}

// asCertificates, asKey and asToken take of a file what it should be, and nothing else: whatever a link or a slip has put in
// its place is not handed over.
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

// maxToken bounds a token, in bytes; a ServiceAccount's has about 1000.
const maxToken = 64 << 10

// asToken takes the characters of RFC 6750, section 2.1.
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
