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

// checkSpread is the time over which the nodes of a cluster spread their checks after all have lost their watches at once.
const checkSpread = 10 * time.Second

// errRewound ends a watch of a server that has nothing from after the watch's position.
var errRewound = errors.New("the API server has an older state than before: it was restored from a backup")

// checkBeside checks the server's version beside a watch from r.state.position, and ends the watch with errRewound if the server is
// older. A watch alone does not show that: the server sends no event until it has passed the position again. The result comes with the
// call of stop, which ends a check under way: the server's version, or 0 if no check has succeeded.
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

// serverVersion returns the server's version. The watch cache tells it as long as it has come to the position. Only a server that
// is behind has to ask etcd.
func (r *reflector) serverVersion(ctx context.Context) (uint64, error) {
	version, err := r.version(ctx, r.state.position)
	if isFuture(err) {
		version, err = r.version(ctx, 0)
	}
	return version, err
}

// version lists next to nothing for the version of the list, which is at least the given one; 0: it is the newest one, from etcd.
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
	// A decoder is for one goroutine, and the watch beside has the other.
	return kubewire.NewDecoder(s.kind).Version(answer, answer.format)
}

// sampleName is the name of an object that every cluster has, as a Service, its slice and its Endpoints.
const sampleName = "kubernetes"

// sample is a list that is cheap for the server: an object of a namespace, by name. Of pods it is those of a namespace that the source
// selects, of nodes what it selects: the Node authorizer allows a kubelet's certificate no list without the selector of its node (Kubernetes 1.32).
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
