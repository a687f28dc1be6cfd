package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/node-dns/node-dns/internal/dns/zone"
	"github.com/node-dns/node-dns/internal/kube/cluster"
	"github.com/node-dns/node-dns/test/e2e/kube"
)

// fleetAgent is the User-Agent of a node's client, before its number.
const fleetAgent = "/fleet-"

// apiFleet is the API clients of a cluster's nodes, all in this process, and a real API server.
// Each node has its own connection. As with the chart, all have the same ServiceAccount.
type apiFleet struct {
	t          testing.TB
	c          *kube.Cluster
	client     string // "node-dns" or "coredns"
	kubeconfig []byte
	states     string // directory for the saved states of node-dns; empty if it saves none
	isShared   bool   // all nodes start with the state of node 0, and so follow the Pods of its node
	nodes      []*fleetNode
	received   atomic.Int64 // bytes on the wire, including TLS and HTTP/2
	codes      [600]atomic.Int64
	lines      []string // results of the events

	starts time.Duration // CPU time of kube-apiserver's own start
	idle   float64       // CPU that it uses without nodes
}

// fleetNode is one node's client.
type fleetNode struct {
	services  atomic.Int64 // known Services
	isCurrent func() bool  // whether the API server's objects are known and watched
	stop      func()       // nil if it does not run
}

func newAPIFleet(t testing.TB, c *kube.Cluster, client string, size int) *apiFleet {
	t.Helper()
	f := &apiFleet{t: t, c: c, client: client}
	var err error
	if f.kubeconfig, err = c.Kubeconfig(kube.Reader()); err != nil {
		t.Fatal(err)
	}
	for range size {
		f.nodes = append(f.nodes, new(fleetNode))
	}
	t.Cleanup(f.stop)
	return f
}

// start starts all nodes at once.
func (f *apiFleet) start() {
	f.t.Helper()
	for i, n := range f.nodes {
		n.services.Store(0)
		start := f.startNodeDNS
		if f.client != "node-dns" {
			start = f.startCoreDNS
		}
		if err := start(i, n); err != nil {
			f.t.Fatal(err)
		}
	}
}

// stop stops all nodes.
func (f *apiFleet) stop() {
	var group errgroup.Group
	for _, n := range f.nodes {
		if n.stop != nil {
			group.Go(func() error { n.stop(); return nil })
		}
	}
	_ = group.Wait()
	for _, n := range f.nodes {
		n.stop = nil
	}
}

// startNodeDNS starts a node's Watcher, as in the daemon with the chart's configuration.
func (f *apiFleet) startNodeDNS(i int, n *fleetNode) error {
	config := cluster.Config{
		Contents: f.kubeconfig, Version: fmt.Sprintf("%s%d", fleetAgent[1:], i), Dial: f.dial,
		NodeName: f.nodeName(i), Features: cluster.Features{NodePods: true},
		Publish:   func(s *zone.Snapshot) { n.services.Store(int64(s.Counts().Services)) },
		Requested: func(r cluster.Request) { f.codes[r.Code].Add(1) },
	}
	if f.states != "" {
		config.SnapshotFile = filepath.Join(f.states, fmt.Sprint(i))
	}
	w := cluster.New(config)
	n.isCurrent = func() bool {
		s := w.State()
		return s.Phase == cluster.Synced && s.FromDisk.IsZero()
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = w.Run(ctx) }()
	n.stop = func() { cancel(); <-done }
	return nil
}

func (f *apiFleet) nodeName(i int) string {
	if f.isShared {
		i = 0
	}
	return fmt.Sprint("node-", i)
}

// shareState makes node 0 save its state, and gives it to all nodes.
func (f *apiFleet) shareState(services int) {
	f.t.Helper()
	f.states, f.isShared = f.t.TempDir(), true
	first := f.nodes[0]
	if err := f.startNodeDNS(0, first); err != nil {
		f.t.Fatal(err)
	}
	f.awaitOf([]*fleetNode{first}, services, *apiPatience)
	f.stop() // saves the state
	for i := range f.nodes[1:] {
		if err := os.Link(filepath.Join(f.states, "0"), filepath.Join(f.states, fmt.Sprint(i+1))); err != nil {
			f.t.Fatal(err)
		}
	}
}

// startCoreDNS starts the informers of CoreDNS's plugin kubernetes (v1.15, controller.go):
// Services, EndpointSlices and namespaces of the whole cluster, in protobuf, with its client-go and
// WatchList. They keep only the keys of objects, unlike CoreDNS, because thousands of nodes share
// this process.
func (f *apiFleet) startCoreDNS(i int, n *fleetNode) error {
	config, err := clientcmd.RESTConfigFromKubeConfig(f.kubeconfig)
	if err != nil {
		return err
	}
	config.ContentType, config.AcceptContentTypes = "application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf"
	config.UserAgent, config.Dial = fmt.Sprint("coredns", fleetAgent, i), f.dial
	config.Proxy = http.ProxyFromEnvironment // a connection of its own: see newWay of package cluster
	config.WrapTransport = func(inner http.RoundTripper) http.RoundTripper { return countCodes{inner, f} }
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	services := informer(client, &corev1.Service{}, client.CoreV1().Services("").List, client.CoreV1().Services("").Watch)
	others := []cache.SharedIndexInformer{
		informer(client, &discoveryv1.EndpointSlice{}, client.DiscoveryV1().EndpointSlices("").List, client.DiscoveryV1().EndpointSlices("").Watch),
		informer(client, &corev1.Namespace{}, client.CoreV1().Namespaces().List, client.CoreV1().Namespaces().Watch),
	}
	ctx, cancel := context.WithCancel(context.Background())
	tell := func(any) {
		if services.HasSynced() && others[0].HasSynced() && others[1].HasSynced() {
			n.services.Store(int64(len(services.GetStore().ListKeys())))
		}
	}
	if _, err := services.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: tell}); err != nil {
		cancel()
		return err
	}
	var group errgroup.Group
	for _, one := range append(others, services) {
		group.Go(func() error { one.RunWithContext(ctx); return nil })
	}
	group.Go(func() error {
		if cache.WaitForCacheSync(ctx.Done(), services.HasSynced, others[0].HasSynced, others[1].HasSynced) {
			tell(nil)
		}
		return nil
	})
	n.isCurrent = func() bool { return true }
	n.stop = func() { cancel(); _ = group.Wait() }
	return nil
}

// informer makes an informer as CoreDNS does.
func informer[L runtime.Object](client kubernetes.Interface, of runtime.Object,
	list func(context.Context, metav1.ListOptions) (L, error), follow func(context.Context, metav1.ListOptions) (watch.Interface, error),
) cache.SharedIndexInformer {
	lw := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return list(ctx, o) },
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return follow(ctx, o)
		},
	}, client)
	made := cache.NewSharedIndexInformer(lw, of, 0, cache.Indexers{})
	// The key is what an informer needs, the resourceVersion what its watch needs.
	_ = made.SetTransform(func(o any) (any, error) {
		if m, ok := o.(metav1.Object); ok {
			return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
				Namespace: m.GetNamespace(), Name: m.GetName(), UID: m.GetUID(), ResourceVersion: m.GetResourceVersion(),
			}}, nil
		}
		return o, nil
	})
	return made
}

// countCodes counts the responses of client-go's requests.
type countCodes struct {
	http.RoundTripper
	f *apiFleet
}

func (c countCodes) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := c.RoundTripper.RoundTrip(r)
	if err == nil {
		c.f.codes[response.StatusCode].Add(1)
	}
	return response, err
}

// dial connects to the API server and counts the received bytes.
func (f *apiFleet) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &countedConn{conn, &f.received}, nil
}

type countedConn struct {
	net.Conn
	received *atomic.Int64
}

func (c *countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.received.Add(int64(n))
	return n, err
}

// await waits until every node follows the API server and knows that many Services, and returns the
// time that it took.
func (f *apiFleet) await(services int, patience time.Duration) time.Duration {
	f.t.Helper()
	return f.awaitOf(f.nodes, services, patience)
}

func (f *apiFleet) awaitOf(nodes []*fleetNode, services int, patience time.Duration) time.Duration {
	f.t.Helper()
	began := time.Now()
	for {
		lacking := 0
		for _, n := range nodes {
			if n.services.Load() != int64(services) || !n.isCurrent() {
				lacking++
			}
		}
		if lacking == 0 {
			return time.Since(began)
		}
		if time.Since(began) > patience {
			f.t.Fatalf("%d of %d nodes do not know %d Services after %v", lacking, len(nodes), services, patience)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// isFleets reports whether a node of the fleet made the request.
func isFleets(r kube.Request) bool { return strings.Contains(r.Agent, fleetAgent) }
