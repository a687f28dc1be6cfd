package doctor

import (
	"context"
	"errors"
	"os"

	"github.com/node-dns/node-dns/internal/kube/cluster"
	"github.com/node-dns/node-dns/internal/nodeconfig"
	"github.com/node-dns/node-dns/internal/policy"
)

// Rights says what the configuration asks of the Kubernetes API.
type Rights struct {
	Kubeconfig string   // "": the API is not watched
	Missing    []string // what the API server would deny, as `kubectl auth can-i` takes it
}

// CheckRights asks the API server which rights a daemon below root would lack. The error says why the server cannot be asked.
// Root asks with what nodeconfig.RootsKubeconfig lets it use, and so runs no plugin.
func CheckRights(ctx context.Context, root string, config nodeconfig.Config) (Rights, error) {
	paths := nodeconfig.DefaultPaths(root)
	usual := paths.Kubeconfig
	if _, err := os.Stat(usual); errors.Is(err, os.ErrNotExist) {
		usual = ""
	}
	hostname, _ := os.Hostname() // a host without a name has an empty one
	api := policy.NewAPI(config, usual, hostname)
	if api == (policy.API{}) {
		return Rights{}, nil
	}
	rights := Rights{Kubeconfig: nodeconfig.FindKubeconfig(paths, api.Original).Use}
	contents, err := nodeconfig.RootsKubeconfig(paths, rights.Kubeconfig)
	if err != nil {
		return rights, err
	}
	missing, err := cluster.MissingRights(ctx, cluster.Config{
		Kubeconfig: rights.Kubeconfig, Contents: contents, Features: api.Features, NodeName: api.Node,
	})
	for _, right := range missing {
		rights.Missing = append(rights.Missing, right.String())
	}
	return rights, err
}
