package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/node-dns/node-dns/test/e2e/kube"
)

// The control planes of the tests that leave them running. What such a test adds, it removes.
var (
	// static holds the fixtures as a watcher sees them, slices and Endpoints too: nobody else writes any.
	static = sharedCluster{fixtures: staticFixtures}
	// controlled holds what its users would have created; the slices are those that real controllers make of it.
	controlled = sharedCluster{hasControllers: true, fixtures: controlledFixtures}
)

// The names of the fixtures. No two of them have an object in common that is not the same.
var fixtureNames = []string{"node-dns", "openshift-3.11", "kubernetes-e2e"}

func staticFixtures(name string) string     { return filepath.Join(casesDir, name+".static.yaml") }
func controlledFixtures(name string) string { return filepath.Join("testdata", name+".yaml") }

// endpointsTimeout is how long the controllers may take to write the slices of the fixtures. They need less than a second.
const endpointsTimeout = 5 * time.Minute

// sharedCluster is started for the first test that wants it, and closed by TestMain.
type sharedCluster struct {
	fixtures       func(name string) string
	hasControllers bool

	once    sync.Once
	cluster *kube.Cluster
	err     error
}

// get returns the control plane.
func (s *sharedCluster) get(t testing.TB) *kube.Cluster {
	t.Helper()
	config := kube.Config{Programs: programs(t)}
	s.once.Do(func() { s.err = s.start(context.WithoutCancel(t.Context()), config) })
	if s.err != nil {
		t.Fatal(s.err)
	}
	return s.cluster
}

func (s *sharedCluster) start(ctx context.Context, config kube.Config) error {
	var err error
	if s.cluster, err = kube.Start(ctx, config); err != nil {
		return err
	}
	roles, err := readObjects(manifestFile)
	if err != nil {
		return err
	}
	objects := append(grants(roles), kube.NodeObject()) // endpointslice-controller leaves pods out whose node does not exist
	for _, name := range fixtureNames {
		fixture, err := readObjects(s.fixtures(name))
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		objects = append(objects, fixture...)
	}
	if err := s.cluster.Apply(ctx, objects...); err != nil || !s.hasControllers {
		return err
	}
	if err := s.cluster.StartControllers(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, endpointsTimeout)
	defer cancel()
	return s.cluster.AwaitEndpoints(ctx, objects...)
}

func (s *sharedCluster) close() {
	if s.cluster != nil {
		s.cluster.Close()
	}
}

// manifestFile is the ClusterRole that we ship.
const manifestFile = product + "/contrib/cluster-role.yaml"

// grants are what gives kube.Reader the roles of the manifest, and no more.
func grants(manifest []*kube.Object) []*kube.Object {
	roles := slices.DeleteFunc(slices.Clone(manifest), func(o *kube.Object) bool { return o.GetKind() != "ClusterRole" })
	return append(roles, kube.Bindings(kube.Reader(), roles)...)
}
