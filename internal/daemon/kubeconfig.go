package daemon

import (
	"errors"
	"os"

	"github.com/node-dns/node-dns/internal/nodeconfig"
)

// usualKubeconfig returns the default kubeconfig, used if the configuration names none: the default
// file, or that of the pod's ServiceAccount, or "" if there is neither.
func (d *Daemon) usualKubeconfig() string {
	if _, err := os.Stat(d.paths.kubeconfig); errors.Is(err, os.ErrNotExist) {
		return d.paths.podKubeconfig
	}
	return d.paths.kubeconfig
}

// keptKubeconfig is usualKubeconfig, but also returns a missing file if the API is watched with it.
// The daemon waits for such a file, as for a configured one, and answers names in the meantime.
func (d *Daemon) keptKubeconfig() string {
	if d.policy().API.Original == d.paths.kubeconfig {
		return d.paths.kubeconfig
	}
	return d.usualKubeconfig()
}

// goneKubeconfig returns the kubeconfig that the cluster was read with if it no longer exists, and
// "" otherwise.
func (d *Daemon) goneKubeconfig() string {
	if d.policy() == nil || d.resolver.Known() == nil {
		return ""
	}
	path := d.policy().API.Kubeconfig
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		return ""
	}
	return path
}

// credentials returns the API credentials from the kubeconfig that the configuration selects.
func (d *Daemon) credentials(config nodeconfig.Config, kubeconfig string) nodeconfig.Kubeconfig {
	return nodeconfig.FindKubeconfig(d.config.Looker.Config, config.KubeconfigFile(kubeconfig))
}
