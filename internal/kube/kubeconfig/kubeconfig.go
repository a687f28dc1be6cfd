// Package kubeconfig reads the cluster and the user of a kubeconfig's current context, and puts the files that they name into it.
//
// It takes the place of client-go's tools/clientcmd, which brings the API machinery into the program (3,700,000 bytes); a test holds
// that both read the same. Plugins (exec, auth-provider) are recognised and never run: see ErrPlugin.
package kubeconfig

import (
	"errors"
	"fmt"

	"gopkg.in/yaml.v3"
)

// MaxSize bounds a kubeconfig, in octets.
const MaxSize = 1 << 20

// Config is the current context of a kubeconfig: one cluster and one user.
type Config struct {
	Cluster Cluster
	User    User
}

// file is of a kubeconfig (client-go tools/clientcmd/api/v1) what it takes to ask one API server.
type file struct {
	APIVersion     string         `yaml:"apiVersion"`
	Kind           string         `yaml:"kind"`
	Clusters       []namedCluster `yaml:"clusters"`
	Contexts       []namedContext `yaml:"contexts"`
	CurrentContext string         `yaml:"current-context"`
	Users          []namedUser    `yaml:"users"`
}

type namedCluster struct {
	Name    string  `yaml:"name"`
	Cluster Cluster `yaml:"cluster"`
}

type namedContext struct {
	Name    string `yaml:"name"`
	Context struct {
		Cluster string `yaml:"cluster"`
		User    string `yaml:"user"`
	} `yaml:"context"`
}

type namedUser struct {
	Name string `yaml:"name"`
	User User   `yaml:"user"`
}

// Cluster is an API server and how it proves itself. What ends in Data is base64.
type Cluster struct {
	Server                   string `yaml:"server"`
	TLSServerName            string `yaml:"tls-server-name,omitempty"`
	InsecureSkipTLSVerify    bool   `yaml:"insecure-skip-tls-verify,omitempty"`
	CertificateAuthority     string `yaml:"certificate-authority,omitempty"`
	CertificateAuthorityData string `yaml:"certificate-authority-data,omitempty"`
	ProxyURL                 string `yaml:"proxy-url,omitempty"`
	DisableCompression       bool   `yaml:"disable-compression,omitempty"`
}

// User is how we prove who we are. What ends in Data is base64.
type User struct {
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
	// ErrRefused is matched by a kubeconfig that is not used, however often it is tried.
	ErrRefused = errors.New("refused")
	// ErrPlugin is the ErrRefused of credentials that a program has to fetch.
	ErrPlugin = errors.New("credentials come from a plugin (exec, auth-provider), which node-dns does not run: give it a token or a certificate of its own")
)

// refusal matches ErrRefused, without its text.
type refusal struct{ error }

// Is implements the interface of errors.Is.
func (refusal) Is(target error) bool { return target == ErrRefused }

// Unwrap implements the interface of errors.Is.
func (r refusal) Unwrap() error { return r.error }

// Refuse makes an error that matches ErrRefused.
func Refuse(format string, args ...any) error { return refusal{fmt.Errorf(format, args...)} }

// Parse reads a kubeconfig and keeps its current context. Keys that it does not know pass, as with client-go. Its errors match
// ErrRefused and quote nothing but names: the rest may be secret.
func Parse(data []byte) (c Config, err error) {
	defer func() {
		if p := recover(); p != nil { // yaml.v3 is archived, and has panics left where its parser meets an event that it did not expect
			c, err = Config{}, Refuse("it is no kubeconfig")
		}
	}()
	if len(data) > MaxSize {
		return c, Refuse("it is larger than 1 MiB")
	}
	var f file
	if err := yaml.Unmarshal(data, &f); err != nil {
		return c, Refuse("it is no kubeconfig")
	}
	if f.CurrentContext == "" {
		return c, Refuse("it has no current-context")
	}
	var context namedContext
	if !pick(f.Contexts, func(c namedContext) string { return c.Name }, f.CurrentContext, &context) {
		return c, Refuse("it has not one context %q, its current-context", f.CurrentContext)
	}
	var cluster namedCluster
	if !pick(f.Clusters, func(c namedCluster) string { return c.Name }, context.Context.Cluster, &cluster) {
		return c, Refuse("it has not one cluster %q, which its current context names", context.Context.Cluster)
	}
	var user namedUser
	if name := context.Context.User; name != "" && !pick(f.Users, func(u namedUser) string { return u.Name }, name, &user) {
		return c, Refuse("it has not one user %q, whom its current context names", name)
	}
	return Config{cluster.Cluster, user.User}, nil
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

// Text is a kubeconfig of c alone.
func (c Config) Text() ([]byte, error) {
	const name = "node-dns"
	f := file{APIVersion: "v1", Kind: "Config", CurrentContext: name}
	f.Clusters = []namedCluster{{name, c.Cluster}}
	f.Users = []namedUser{{name, c.User}}
	f.Contexts = []namedContext{{Name: name}}
	f.Contexts[0].Context.Cluster, f.Contexts[0].Context.User = name, name
	return yaml.Marshal(f)
}
