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

// Control planes shared by tests that leave them running. Each test removes the objects that it
// adds.
var (
	// static has the fixtures as a watcher sees them, including slices and Endpoints, because no
	// controllers write any.
	static = sharedCluster{fixtures: staticFixtures}
	// controlled has only the objects that users create. Real controllers write the slices.
	controlled = sharedCluster{hasControllers: true, fixtures: controlledFixtures}
)

// Names of the fixtures. Objects that occur in several of them are identical.
var fixtureNames = []string{"node-dns", "openshift-3.11", "kubernetes-e2e"}

func staticFixtures(name string) string     { return filepath.Join(casesDir, name+".static.yaml") }
func controlledFixtures(name string) string { return filepath.Join("testdata", name+".yaml") }

// endpointsTimeout bounds the time that the controllers need to write the fixtures' slices. Usually
// it is less than a second.
const endpointsTimeout = 5 * time.Minute

// sharedCluster is started by the first test that needs it and closed by TestMain.
type sharedCluster struct {
	fixtures       func(name string) string
	hasControllers bool

	once    sync.Once
	cluster *kube.Cluster
	err     error
}

// get returns the control plane. It starts it if necessary.
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
	objects := append(grants(roles), kube.NodeObject()) // endpointslice-controller ignores pods whose node does not exist
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

// manifestFile is our shipped ClusterRole.
const manifestFile = product + "/contrib/cluster-role.yaml"

// grants returns the objects that give kube.Reader exactly the roles of the manifest.
func grants(manifest []*kube.Object) []*kube.Object {
	roles := slices.DeleteFunc(slices.Clone(manifest), func(o *kube.Object) bool { return o.GetKind() != "ClusterRole" })
	return append(roles, kube.Bindings(kube.Reader(), roles)...)
}
