package nodeconfig

import (
	"errors"
	"fmt"

	"gopkg.in/yaml.v3"
)

// maxKubeconfig bounds a kubeconfig, in bytes.
const maxKubeconfig = 1 << 20

// KubeContext is the current context of a kubeconfig: one cluster and one user.
//
// The code here replaces client-go's tools/clientcmd, which would add the API machinery to the
// program (3,700,000 bytes). A test checks that both read the same. Plugins (exec, auth-provider)
// are detected but never run: see ErrPlugin.
type KubeContext struct {
	Cluster KubeCluster
	User    KubeUser
}

// kubeDocument is the part of a kubeconfig (client-go tools/clientcmd/api/v1) that is needed to
// connect to one API server.
type kubeDocument struct {
	APIVersion     string         `yaml:"apiVersion"`
	Kind           string         `yaml:"kind"`
	Clusters       []namedCluster `yaml:"clusters"`
	Contexts       []namedContext `yaml:"contexts"`
	CurrentContext string         `yaml:"current-context"`
	Users          []namedUser    `yaml:"users"`
}

type namedCluster struct {
	Name    string      `yaml:"name"`
	Cluster KubeCluster `yaml:"cluster"`
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
	User KubeUser `yaml:"user"`
}

// KubeCluster is an API server and how it is authenticated. Fields that end in Data are base64.
type KubeCluster struct {
	Server                   string `yaml:"server"`
	TLSServerName            string `yaml:"tls-server-name,omitempty"`
	InsecureSkipTLSVerify    bool   `yaml:"insecure-skip-tls-verify,omitempty"`
	CertificateAuthority     string `yaml:"certificate-authority,omitempty"`
	CertificateAuthorityData string `yaml:"certificate-authority-data,omitempty"`
	ProxyURL                 string `yaml:"proxy-url,omitempty"`
	DisableCompression       bool   `yaml:"disable-compression,omitempty"`
}

// KubeUser holds the credentials of the client. Fields that end in Data are base64.
type KubeUser struct {
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
	// ErrRefused matches the errors of a kubeconfig that is never used, so retries are pointless.
	ErrRefused = errors.New("refused")
	// ErrPlugin is the ErrRefused of credentials that a plugin would fetch.
	ErrPlugin = errors.New("node-dns does not run credential plugins (exec, auth-provider); use a token or a client certificate")
)

// refusal matches ErrRefused without having its text.
type refusal struct{ error }

func (refusal) Is(target error) bool { return target == ErrRefused }

func (r refusal) Unwrap() error { return r.error }

// refuse returns an error that matches ErrRefused.
func refuse(format string, args ...any) error { return refusal{fmt.Errorf(format, args...)} }

// parseKubeconfig parses a kubeconfig and keeps its current context. It ignores unknown keys, like
// client-go. Its errors match ErrRefused and quote only names, because everything else may be
// secret.
func parseKubeconfig(data []byte) (c KubeContext, err error) {
	defer func() {
		if p := recover(); p != nil { // yaml.v3 is archived, and its parser still panics on unexpected events
			c, err = KubeContext{}, refuse("it is not a kubeconfig")
		}
	}()
	if len(data) > maxKubeconfig {
		return c, refuse("it is larger than 1 MiB")
	}
	var f kubeDocument
	if err := yaml.Unmarshal(data, &f); err != nil {
		return c, refuse("it is not a kubeconfig")
	}
	if f.CurrentContext == "" {
		return c, refuse("it has no current-context")
	}
	var context namedContext
	if !pick(f.Contexts, func(c namedContext) string { return c.Name }, f.CurrentContext, &context) {
		return c, refuse("expected exactly one context %q, as in current-context", f.CurrentContext)
	}
	var cluster namedCluster
	if !pick(f.Clusters, func(c namedCluster) string { return c.Name }, context.Context.Cluster, &cluster) {
		return c, refuse("expected exactly one cluster %q, as in the current context", context.Context.Cluster)
	}
	var user namedUser
	if name := context.Context.User; name != "" && !pick(f.Users, func(u namedUser) string { return u.Name }, name, &user) {
		return c, refuse("expected exactly one user %q, as in the current context", name)
	}
	return KubeContext{cluster.Cluster, user.User}, nil
}

// pick sets out to the element with that name. It returns false unless there is exactly one.
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

// Text returns a kubeconfig that contains only c.
func (c KubeContext) Text() ([]byte, error) {
	const name = "node-dns"
	f := kubeDocument{APIVersion: "v1", Kind: "Config", CurrentContext: name}
	f.Clusters = []namedCluster{{name, c.Cluster}}
	f.Users = []namedUser{{name, c.User}}
	f.Contexts = []namedContext{{Name: name}}
	f.Contexts[0].Context.Cluster, f.Contexts[0].Context.User = name, name
	return yaml.Marshal(f)
}
