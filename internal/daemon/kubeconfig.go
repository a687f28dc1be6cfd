package daemon

import (
	"errors"
	"os"

	"github.com/node-dns/node-dns/internal/nodeconfig"
)

// usualKubeconfig is the one that is used where the configuration names none; "" while it does not exist.
func (d *Daemon) usualKubeconfig() string {
	if _, err := os.Stat(d.paths.kubeconfig); errors.Is(err, os.ErrNotExist) {
		return ""
	}
	return d.paths.kubeconfig
}

// keptKubeconfig is usualKubeconfig, but for one that has vanished while the API is watched with it: it is waited for as
// one that the configuration names, and names are answered meanwhile.
func (d *Daemon) keptKubeconfig() string {
	if d.policy().API.Original == d.paths.kubeconfig {
		return d.paths.kubeconfig
	}
	return d.usualKubeconfig()
}

// goneKubeconfig is the kubeconfig that the cluster was read with, when that does not exist any more; "" otherwise.
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

// credentials are what the API is asked with, of the kubeconfig that the configuration means.
func (d *Daemon) credentials(config nodeconfig.Config, kubeconfig string) nodeconfig.Kubeconfig {
	return nodeconfig.FindKubeconfig(d.config.Looker.Config, config.KubeconfigFile(kubeconfig))
}
