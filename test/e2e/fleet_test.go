package e2e

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/node-dns/node-dns/internal/dns/zone"
	"github.com/node-dns/node-dns/internal/kube/cluster"
	"github.com/node-dns/node-dns/internal/test/kubetest"
)

var fleetSize = flag.Int("fleet", 100, "the nodes of TestFleet; docs/explanation/cluster-resolver.md has the figures of 5000, which take minutes and 12 GB")

// fleetServices is small, because only requests are counted. With many Services, necessary lists
// are spread over more time.
const fleetServices = 20

// TestFleet counts the requests of a cluster's nodes to its API server, in fake time, before and
// after an event that affects all of them at once. It compares them with as many of client-go's
// reflectors, which CoreDNS and kube-proxy use. With node-dns no node lists a resource twice or
// from etcd, and the nodes spread their lists and checks over 10 s.
func TestFleet(t *testing.T) {
	klog.SetSlogLogger(slog.New(slog.DiscardHandler)) // client-go logs each failure
	happenings := []struct {
		name string
		do   func(f *fleet)
	}{
		{"a load balancer drops all connections", func(f *fleet) { f.network.SetDown(true); f.network.SetDown(false) }},
		{"the API server is away for a minute", func(f *fleet) {
			f.network.SetDown(true)
			time.Sleep(time.Minute)
			f.forget()
			f.network.SetDown(false)
		}},
		{"watches are 410 Gone", func(f *fleet) {
			f.server.Compact()
			f.network.SetDown(true)
			f.network.SetDown(false)
		}},
		{"the kubeconfig has another token", func(f *fleet) { f.writeKubeconfig("another") }},
	}
	for _, h := range happenings {
		t.Run(h.name, func(t *testing.T) {
			for _, client := range fleetClients {
				synctest.Test(t, func(t *testing.T) {
					f := newFleet(t)
					defer f.startNodes(t.Context(), client)()
					time.Sleep(15 * time.Minute) // each watch has ended normally once and started again
					f.checkKnown()
					f.forget()
					h.do(f)
					time.Sleep(90 * time.Second)
					f.apply("after")
					time.Sleep(time.Second)
					got := f.count()
					t.Logf("%-10s %s", client.name, got)
					if client.name == "node-dns" {
						got.check(t)
						f.checkKnown()
					}
				})
			}
		})
	}
}

// fleetClient is a program that follows the API on a node.
type fleetClient struct {
	name  string
	start func(ctx context.Context, f *fleet, seed uint64) (end func())
}

var fleetClients = []fleetClient{{"node-dns", startWatcher}, {"client-go", startInformers}}

// startNodes starts the client of each node. end stops them.
func (f *fleet) startNodes(ctx context.Context, client fleetClient) (end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var ends []func()
	for i := range *fleetSize {
		ends = append(ends, client.start(ctx, f, uint64(i)))
	}
	return func() {
		cancel()
		f.network.SetDown(true)
		for _, end := range ends {
			end()
		}
	}
}

// TestFleetStart starts all nodes at once without a saved state, at an API server that is far too
// small for that: it needs three minutes for the requests of client-go's reflectors. Rejected nodes
// must wait longer after each retry. Otherwise most of its work is to reject them.
func TestFleetStart(t *testing.T) {
	klog.SetSlogLogger(slog.New(slog.DiscardHandler)) // client-go logs each failure
	for _, client := range fleetClients {
		synctest.Test(t, func(t *testing.T) {
			f := newFleet(t)
			f.rate = max(1, *fleetSize*6/180)
			defer f.startNodes(t.Context(), client)()
			for !f.isKnown() && time.Since(f.begin) < time.Hour {
				time.Sleep(time.Second)
			}
			got := f.count()
			n := float64(*fleetSize)
			t.Logf("%-10s all know after %v; rejected %.2f a node; answered %s", client.name, time.Since(f.begin), float64(f.rejected)/n, got)
			if client.name != "node-dns" {
				return
			}
			f.checkKnown()
			// Without retries, the requests of node-dns take it four and a half minutes.
			if took := time.Since(f.begin); got.lists > 1 || got.isQuorum > 0 || float64(f.rejected) > 15*n || took > 7*time.Minute {
				t.Errorf("%d requests are rejected, and all nodes know the cluster after %v: %v", f.rejected, took, got)
			}
		})
	}
}

// fleet is an API server that records its requests.
type fleet struct {
	t          *testing.T
	server     *kubetest.Server
	network    *kubetest.Wire
	kubeconfig string

	mu     sync.Mutex // guards the fields below
	asked  []asked
	begin  time.Time
	latest map[uint64]int // number of known Services by node
	want   int

	rate     int       // requests a second that the server answers; 0 means no limit
	turn     time.Time // of the next request
	rejected int       // requests answered with 429
}

// asked is one recorded request.
type asked struct {
	at       time.Time
	node     string
	resource string
	kind     string // "watch", "list", "check" or "other"
	isQuorum bool   // for a list: answered by etcd, not by the watch cache
}

func newFleet(t *testing.T) *fleet {
	f := &fleet{
		t: t, server: kubetest.New(), network: kubetest.NewWire(), latest: map[uint64]int{},
		kubeconfig: filepath.Join(t.TempDir(), "kubeconfig"), begin: time.Now(),
	}
	for i := range fleetServices {
		f.apply(fmt.Sprint("s", i))
	}
	f.writeKubeconfig("one")
	server := &http.Server{Handler: http.HandlerFunc(f.serve), ReadHeaderTimeout: time.Hour}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(f.network) }()
	t.Cleanup(func() {
		f.server.CloseWatches()
		server.Close()
		<-done
	})
	return f
}

func (f *fleet) writeKubeconfig(token string) {
	const text = `
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://192.0.2.6"}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
users: [{name: u, user: {token: %s}}]
current-context: x
`
	if err := os.WriteFile(f.kubeconfig, fmt.Appendf(nil, text, token), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

// apply adds a Service with one endpoint.
func (f *fleet) apply(name string) {
	f.server.Apply(fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {namespace: default, name: %[1]s}
spec: {clusterIP: 10.96.0.1, clusterIPs: [10.96.0.1], type: ClusterIP}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {namespace: default, name: %[1]s-x, labels: {kubernetes.io/service-name: %[1]s}}
addressType: IPv4
endpoints: [{addresses: [10.1.0.1]}]
`, name))
	f.mu.Lock()
	f.want++
	f.mu.Unlock()
}

// serve records a request and passes it to the server. The User-Agent identifies the node.
func (f *fleet) serve(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/healthz" { // over HTTP/1.1, as in this test's network: see pulse.go of package cluster
		if !f.admit(w, r) {
			return
		}
		f.mu.Lock()
		f.asked = append(f.asked, askedFor(r.UserAgent(), r.URL, time.Now()))
		f.mu.Unlock()
	}
	f.server.ServeHTTP(w, r)
}

// queueWait is how long API priority and fairness lets a request wait: a quarter of
// kube-apiserver's --request-timeout.
const queueWait = 15 * time.Second

// admit waits for the request's turn, as in the queues of API priority and fairness. It answers 429
// if that takes too long.
func (f *fleet) admit(w http.ResponseWriter, r *http.Request) bool {
	if f.rate == 0 {
		return true
	}
	f.mu.Lock()
	now := time.Now()
	turn := f.turn
	if turn.Before(now) {
		turn = now
	}
	isAdmitted := turn.Sub(now) <= queueWait
	if isAdmitted {
		f.turn = turn.Add(time.Second / time.Duration(f.rate))
	} else {
		f.rejected++
	}
	f.mu.Unlock()
	if !isAdmitted {
		w.Header().Set("Retry-After", "1")
		http.Error(w, "too many requests", http.StatusTooManyRequests)
		return false
	}
	select {
	case <-time.After(turn.Sub(now)):
		return true
	case <-r.Context().Done(): // the client has left
		return false
	}
}

// askedFor classifies a request.
func askedFor(agent string, uri *url.URL, at time.Time) asked {
	q, version := uri.Query(), uri.Query().Get("resourceVersion")
	a := asked{at: at, node: agent, resource: uri.Path[strings.LastIndexByte(uri.Path, '/')+1:], kind: "other"}
	switch isOne := q.Get("fieldSelector") == "metadata.name=kubernetes" || strings.Contains(uri.Path, "/namespaces/default/"); {
	case q.Get("sendInitialEvents") == "true": // client-go's WatchList: a list that continues as a watch
		a.kind = "list"
	case q.Get("watch") != "":
		a.kind = "watch"
	case isOne:
		a.kind, a.isQuorum = "check", version == ""
	case slices.Contains([]string{"services", "namespaces", "endpointslices", "pods"}, a.resource):
		a.kind, a.isQuorum = "list", version == ""
	}
	return a
}

// forget resets the counters.
func (f *fleet) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked, f.begin = nil, time.Now()
}

// know records how many Services a node knows.
func (f *fleet) know(node uint64, services int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.latest[node] = services
}

// isKnown reports whether each node knows every Service.
func (f *fleet) isKnown() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for node := range uint64(*fleetSize) {
		if f.latest[node] != f.want {
			return false
		}
	}
	return true
}

// checkKnown fails the test unless each node knows every Service.
func (f *fleet) checkKnown() {
	f.t.Helper()
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	for node := range uint64(*fleetSize) {
		if got := f.latest[node]; got != f.want {
			f.t.Fatalf("node %d knows %d Services of %d", node, got, f.want)
		}
	}
}

// load is the number of requests of all nodes.
type load struct {
	byKind   map[string]int
	peak     map[string]int // maximum in one second
	lists    int            // maximum of one node for one resource
	isQuorum int            // lists and checks answered by etcd
}

func (f *fleet) count() load {
	f.mu.Lock()
	defer f.mu.Unlock()
	return loadOf(f.asked, f.begin)
}

func loadOf(all []asked, begin time.Time) load {
	l := load{byKind: map[string]int{}, peak: map[string]int{}}
	type second struct {
		kind string
		at   time.Duration
	}
	type who struct{ node, resource string }
	seconds, lists := map[second]int{}, map[who]int{}
	for _, a := range all {
		l.byKind[a.kind]++
		for _, kind := range []string{a.kind, "all"} {
			s := second{kind, a.at.Sub(begin).Truncate(time.Second)}
			seconds[s]++
			l.peak[kind] = max(l.peak[kind], seconds[s])
		}
		if a.isQuorum {
			l.isQuorum++
		}
		if a.kind == "list" {
			w := who{a.node, a.resource}
			lists[w]++
			l.lists = max(l.lists, lists[w])
		}
	}
	return l
}

// String returns the figures per node on one line.
func (l load) String() string {
	var b strings.Builder
	for _, kind := range []string{"watch", "list", "check", "other"} {
		fmt.Fprintf(&b, "%s %.2f a node (at most %.2f in a second)  ", kind, float64(l.byKind[kind])/float64(*fleetSize), float64(l.peak[kind])/float64(*fleetSize))
	}
	fmt.Fprintf(&b, "all: %.2f in a second; lists of one resource and node: %d; from etcd: %d", float64(l.peak["all"])/float64(*fleetSize), l.lists, l.isQuorum)
	return b.String()
}

// check checks the limits described at TestFleet. An even spread would be a tenth of the nodes per
// second. Random times make it uneven, more so with few nodes.
func (l load) check(t *testing.T) {
	t.Helper()
	const resources = 3
	if most := *fleetSize * resources / 4; l.peak["check"] > most || l.peak["list"] > most {
		t.Errorf("checks and lists come at once: %v", l)
	}
	if l.lists > 1 || l.isQuorum > 0 {
		t.Errorf("too many lists, or lists from etcd: %v", l)
	}
}

// startWatcher starts a node's Watcher, as in the daemon.
func startWatcher(ctx context.Context, f *fleet, seed uint64) (end func()) {
	random := rand.New(rand.NewPCG(seed, 1))
	var mu sync.Mutex
	w := cluster.New(cluster.Config{
		Kubeconfig: f.kubeconfig, Version: fmt.Sprint(seed), Dial: f.network.Dial,
		Publish: func(s *zone.Snapshot) { f.know(seed, s.Counts().Services) },
		Chance: func() float64 {
			mu.Lock()
			defer mu.Unlock()
			return random.Float64()
		},
	})
	done := make(chan struct{})
	go func() { defer close(done); _ = w.Run(ctx) }()
	return func() { <-done }
}

// startInformers starts client-go's informers, as in CoreDNS.
func startInformers(ctx context.Context, f *fleet, seed uint64) (end func()) {
	client, err := kubernetes.NewForConfig(&rest.Config{
		Host: "http://192.0.2.6", UserAgent: fmt.Sprint(seed), Dial: f.network.Dial, Proxy: http.ProxyFromEnvironment,
		ContentConfig: rest.ContentConfig{ContentType: "application/vnd.kubernetes.protobuf"},
	})
	if err != nil {
		f.t.Fatal(err)
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	services := factory.Core().V1().Services().Informer()
	factory.Core().V1().Namespaces().Informer()
	factory.Discovery().V1().EndpointSlices().Informer()
	tell := func(any) { f.know(seed, len(services.GetStore().ListKeys())) }
	if _, err := services.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: tell}); err != nil {
		f.t.Fatal(err)
	}
	factory.StartWithContext(ctx)
	return factory.Shutdown
}
