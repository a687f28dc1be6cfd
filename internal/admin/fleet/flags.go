package fleet

import (
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Flags are kubectl's flags for the cluster and the user: --kubeconfig, --context, --as and others.
// --namespace is not among them.
type Flags struct {
	rules     *clientcmd.ClientConfigLoadingRules
	overrides clientcmd.ConfigOverrides
}

// AddFlags adds the flags to a set.
func AddFlags(set *pflag.FlagSet) *Flags {
	f := &Flags{rules: clientcmd.NewDefaultClientConfigLoadingRules()}
	set.StringVar(&f.rules.ExplicitPath, "kubeconfig", "", "path of the kubeconfig `file`")
	names := clientcmd.RecommendedConfigOverrideFlags("")
	names.ContextOverrideFlags.Namespace = clientcmd.FlagInfo{} // the namespace of node-dns is another one
	clientcmd.BindOverrideFlags(&f.overrides, set, names)
	return f
}

// Client returns a client for the pods of a namespace. container is where programs run.
func (f *Flags) Client(namespace, container string) (*Client, error) {
	config, err := f.config().ClientConfig()
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = 50, 100 // client-go's own limit slows down the lists of a large cluster
	if config.UserAgent == "" {
		config.UserAgent = "kubectl-node_dns/" + rest.DefaultKubernetesUserAgent()
	}
	return newClient(config, namespace, container)
}

// Namespace returns the namespace of the context, where kubectl looks for pods.
func (f *Flags) Namespace() (string, error) {
	namespace, _, err := f.config().Namespace()
	return namespace, err
}

func (f *Flags) config() clientcmd.ClientConfig {
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(f.rules, &f.overrides)
}
