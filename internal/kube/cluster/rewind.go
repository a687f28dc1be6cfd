package cluster

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"time"

	"github.com/node-dns/node-dns/internal/kube/kubewire"
	"github.com/node-dns/node-dns/internal/sys/supervise"
)

// checkSpread spreads the checks of a cluster's nodes after all of them lost their watches at once.
const checkSpread = 10 * time.Second

// errRewound ends a watch of a server that has no state after the watch's position.
var errRewound = errors.New("the API server's state is older than before; it was restored from a backup")

// checkBeside checks the server's version in parallel to a watch from r.state.position, and ends
// the watch with errRewound if the server is older. A watch alone does not detect that: the server
// sends no event until it has passed the position again. stop ends a running check and returns the
// server's version, or 0 if no check has succeeded.
func (r *reflector) checkBeside(ctx context.Context, end context.CancelCauseFunc) (stop func() uint64) {
	ctx, cancel := context.WithCancel(ctx)
	checked := make(chan uint64, 1)
	go func() {
		var version uint64
		defer func() { checked <- version }()
		_ = r.guard(func() (err error) {
			for wait := (pause{max: checkSpread}); supervise.Sleep(ctx, wait.pick(r.chance())); wait = (pause{checkSpread, 2 * checkSpread}) {
				if version, err = r.serverVersion(ctx); err == nil {
					break
				}
			}
			if version > 0 && version < r.state.position {
				end(errRewound)
			}
			return nil
		})()
	}()
	return func() uint64 {
		cancel()
		return <-checked
	}
}

// serverVersion returns the server's version. The watch cache answers once it has reached the
// position. Only a server that is behind must query etcd.
func (r *reflector) serverVersion(ctx context.Context) (uint64, error) {
	version, err := r.version(ctx, r.state.position)
	if isFuture(err) {
		version, err = r.version(ctx, 0)
	}
	return version, err
}

// version makes a minimal list and returns its version, which is at least least. With 0 it is the
// newest version, from etcd.
func (r *reflector) version(ctx context.Context, least uint64) (uint64, error) {
	s, query := r.source.sample()
	if least > 0 {
		query.Set("resourceVersion", formatVersion(least))
	}
	answer, err := r.api.get(ctx, "list", s, query)
	if err != nil {
		return 0, err
	}
	defer answer.close()
	// A decoder is not safe for concurrent use, and the parallel watch uses the other one.
	return kubewire.NewDecoder(s.kind).Version(answer, answer.format)
}

// sampleName is an object that exists in every cluster, as a Service, an EndpointSlice and an
// Endpoints.
const sampleName = "kubernetes"

// sample returns a list that is cheap for the server: one object of a namespace, by name. For Pods
// it is one namespace with the source's own selector, for Nodes only that selector: the Node
// authorizer denies a kubelet's certificate any list without the selector of its node (Kubernetes
// 1.32).
func (s source) sample() (source, url.Values) {
	few := source{kind: s.kind, fields: "metadata.name=" + sampleName}
	if s.kind != kubewire.Namespaces && s.kind != kubewire.Nodes {
		few.namespace = cmp.Or(s.namespace, "default")
	}
	if s.kind == kubewire.Pods || s.kind == kubewire.Nodes {
		few.fields = s.fields
	}
	return few, few.query()
}
