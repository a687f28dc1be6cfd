package daemon

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/node-dns/node-dns/internal/nodeconfig"
	"github.com/node-dns/node-dns/internal/sys/atomicfile"
)

// isInPod reports whether the daemon runs in a pod.
func (d *Daemon) isInPod() bool { return d.config.APIServer != "" }

// useServiceAccount writes a kubeconfig for the ServiceAccount of the pod that the daemon runs in,
// if it does.
func (d *Daemon) useServiceAccount() error {
	if !d.isInPod() {
		return nil
	}
	text, err := nodeconfig.ServiceAccount(d.config.Root, d.config.APIServer)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	path := filepath.Join(d.paths.run, "kubeconfig")
	if err == nil {
		err = os.MkdirAll(d.paths.run, 0o755)
	}
	if err == nil {
		_, err = new(atomicfile.Writer).Write(path, text, 0o600)
	}
	if err != nil {
		return fmt.Errorf("writing a kubeconfig: %w", err)
	}
	d.paths.podKubeconfig = path
	return nil
}

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
