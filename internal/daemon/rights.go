package daemon

import (
	"context"
	"os"

	"github.com/node-dns/node-dns/internal/kube/cluster"
	"github.com/node-dns/node-dns/internal/nodeconfig"
)

// Rights says what the configuration asks of the Kubernetes API.
type Rights struct {
	Kubeconfig string   // "": the API is not watched
	Missing    []string // what the API server would deny, as `kubectl auth can-i` takes it
}

// CheckRights asks the API server for what a daemon below root would need. The error says why it cannot be asked. Root asks
// with what nodeconfig.RootsKubeconfig lets it use, and so runs no plugin.
func CheckRights(ctx context.Context, root string, config nodeconfig.Config) (Rights, error) {
	d := &Daemon{paths: newPaths(Config{Root: root})}
	hostname, _ := os.Hostname() // a host without a name has an empty one
	wanted := newAPI(config, d.usualKubeconfig(), hostname)
	paths := nodeconfig.DefaultPaths(root)
	wanted.kubeconfig = nodeconfig.FindKubeconfig(paths, wanted.original).Use
	rights := Rights{Kubeconfig: wanted.kubeconfig}
	if wanted == (api{}) {
		return rights, nil
	}
	contents, err := nodeconfig.RootsKubeconfig(paths, wanted.kubeconfig)
	if err != nil {
		return rights, err
	}
	missing, err := cluster.MissingRights(ctx, cluster.Config{Kubeconfig: wanted.kubeconfig, Contents: contents, Features: wanted.features, NodeName: wanted.node})
	for _, right := range missing {
		rights.Missing = append(rights.Missing, right.String())
	}
	return rights, err
}
