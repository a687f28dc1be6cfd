package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/node-dns/node-dns/internal/sys/atomicfile"
)

// serviceAccountDir is where Kubernetes mounts a pod's credentials
// (https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/).
const serviceAccountDir = "/var/run/secrets/kubernetes.io/serviceaccount"

// isInPod reports whether the daemon runs in a pod.
func (d *Daemon) isInPod() bool { return d.config.APIServer != "" }

// useServiceAccount writes a kubeconfig for the pod that the daemon runs in, if it does: the
// credentials of its ServiceAccount, which Kubernetes renews, at the address in the environment. It
// is the default kubeconfig if /etc/node-dns/kubeconfig does not exist.
func (d *Daemon) useServiceAccount() error {
	dir := filepath.Join("/", d.config.Root, serviceAccountDir)
	token := filepath.Join(dir, "token")
	if !d.isInPod() {
		return nil
	}
	if _, err := os.Stat(token); err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return fmt.Errorf("looking for the ServiceAccount: %w", err)
	}
	text, err := json.Marshal(map[string]any{ // JSON is YAML
		"apiVersion": "v1", "kind": "Config", "current-context": "pod",
		"clusters": []any{map[string]any{"name": "pod", "cluster": map[string]any{
			"server": "https://" + d.config.APIServer, "certificate-authority": filepath.Join(dir, "ca.crt"),
		}}},
		"users":    []any{map[string]any{"name": "pod", "user": map[string]any{"tokenFile": token}}},
		"contexts": []any{map[string]any{"name": "pod", "context": map[string]any{"cluster": "pod", "user": "pod"}}},
	})
	if err != nil {
		return fmt.Errorf("encoding a kubeconfig: %w", err)
	}
	if err := os.MkdirAll(d.paths.run, 0o755); err != nil {
		return fmt.Errorf("creating the runtime directory: %w", err)
	}
	path := filepath.Join(d.paths.run, "kubeconfig")
	if _, err := new(atomicfile.Writer).Write(path, append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("writing a kubeconfig: %w", err)
	}
	d.paths.podKubeconfig = path
	return nil
}
