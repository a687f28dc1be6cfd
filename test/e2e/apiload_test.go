package e2e

import (
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"k8s.io/klog/v2"

	"github.com/node-dns/node-dns/bench/machine"
	"github.com/node-dns/node-dns/test/e2e/kube"
)

var (
	apiNodes    = flag.String("apinodes", "50x200", "nodes and Services of the clusters that BenchmarkAPILoad measures")
	apiPatience = flag.Duration("apipatience", 20*time.Minute, "time for all nodes to follow the API server in BenchmarkAPILoad")
)

const (
	settled      = 10 * time.Second // time for kube-apiserver to become idle
	maxWithState = 1000             // nodes, for the events that compare starts
	idleTime     = time.Minute      // of the event without changes
)

// apiLoad is the cost of one event for the API server.
type apiLoad struct {
	load
	took     time.Duration // until all nodes knew the cluster's state
	cpu      time.Duration // of kube-apiserver, without that of an idle one
	memory   float64       // of kube-apiserver after the event, in MiB
	received int64         // bytes that the nodes received
	rejected int64         // requests answered with 429
}

// measure runs an event and counts its requests until the nodes know that many Services, and for
// three seconds more.
func (f *apiFleet) measure(event string, services int, do func()) apiLoad {
	f.t.Helper()
	if err := f.c.ForgetRequests(); err != nil {
		f.t.Fatal(err)
	}
	received, rejected, pid, cpu, began := f.received.Load(), f.codes[429].Load(), f.c.APIPID(), processorTime(f.t, f.c.APIPID()), time.Now()
	do()
	if pid != f.c.APIPID() { // restarted
		pid, cpu = f.c.APIPID(), f.starts
	}
	f.await(services, *apiPatience)
	l := apiLoad{took: time.Since(began)}
	time.Sleep(3 * time.Second)
	l.cpu = processorTime(f.t, pid) - cpu - time.Duration(f.idle*float64(time.Since(began)))
	l.memory, l.received, l.rejected = memory(f.t, pid, "VmRSS"), f.received.Load()-received, f.codes[429].Load()-rejected
	requests, err := f.c.Requests()
	if err != nil {
		f.t.Fatal(err)
	}
	var all []asked
	for _, r := range requests {
		if isFleets(r) {
			all = append(all, askedFor(r.Agent, r.URI, r.At))
		}
	}
	l.load = loadOf(all, began)
	n := float64(len(f.nodes))
	line := fmt.Sprintf("%-8s %5d nodes %5d services  %-22s lists %.2f watches %.2f checks %.2f others %.2f a node, lists of one resource %d, from etcd %d; peak %d/s, lists %d/s, 429 %d, %.1f kB a node, API CPU %.1f ms a node, RSS %.0f MiB, %.1fs",
		f.client, len(f.nodes), services, event, float64(l.byKind["list"])/n, float64(l.byKind["watch"])/n, float64(l.byKind["check"])/n, float64(l.byKind["other"])/n,
		l.lists, l.isQuorum, l.peak["all"], l.peak["list"], l.rejected, float64(l.received)/n/1e3, float64(l.cpu.Microseconds())/1e3/n, l.memory, l.took.Seconds())
	f.lines = append(f.lines, line)
	f.t.Log(line)
	return l
}

// fillScale creates Services with their slices, as scaleService and scaleSlice make them.
func fillScale(t testing.TB, c *kube.Cluster, services int) {
	t.Helper()
	create(t, c, grants(objects(t, manifestFile))...)
	for i := range min(services, scaleSpaces) {
		create(t, c, namespace(t, scaleSpace(i)))
	}
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(8)
	for i := range services {
		service, slice := scaleService(t, i), scaleSlice(t, i, true)
		group.Go(func() error { return c.Apply(ctx, service, slice) })
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}

// change changes all endpoints of that many slices and adds a Service.
func (f *apiFleet) change(slices, services int, isReady bool, name, addr string) {
	f.t.Helper()
	for i := range slices {
		o := scaleSlice(f.t, i*7%services, isReady)
		if _, err := f.c.Client(o).Update(f.t.Context(), o, metav1.UpdateOptions{}); err != nil {
			f.t.Fatal(err)
		}
	}
	create(f.t, f.c, service(f.t, "default", name, "{clusterIP: "+addr+", ports: [{port: 80}]}"))
}

// TestAPILoad checks what the nodes cost a real API server: one list of each resource at the start
// and after a restart of the server, answered by its cache and compressed, and none after their own
// restart with a saved state.
func TestAPILoad(t *testing.T) {
	const nodes, services, kinds = 30, 200, 4 // Services, EndpointSlices, namespaces, the node's Pods
	c := newKube(t, kube.Config{Audit: true})
	fillScale(t, c, services)
	f := newAPIFleet(t, c, "node-dns", nodes)
	f.states = t.TempDir()
	check := func(l apiLoad, lists, watches, kilobytes int) {
		t.Helper()
		if got := l.byKind["list"] - int(l.rejected); got > lists*nodes || l.isQuorum > 0 {
			t.Errorf("%d lists, %d from etcd; want at most %d, and none", got, l.isQuorum, lists*nodes)
		}
		if got := l.byKind["watch"] - int(l.rejected); got > watches*nodes {
			t.Errorf("%d watches, want at most %d", got, watches*nodes)
		}
		if got := l.received / nodes / 1000; got > int64(kilobytes) {
			t.Errorf("%d kB a node, want at most %d", got, kilobytes)
		}
	}
	known := services + 1                                        // and the API's own
	check(f.measure("start", known, f.start), kinds, kinds, 150) // 750 kB without compression
	check(f.measure("change", known+1, func() { f.change(1, services, false, "changed", "10.111.0.1") }), 0, 0, 10)
	f.stop()
	check(f.measure("start with state", known+1, f.start), 0, kinds, 20)
}

// restartAPI stops the API server as its service manager does, and starts it again.
func (f *apiFleet) restartAPI() {
	f.t.Helper()
	f.c.StopAPI()
	if err := f.c.StartAPI(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
}

// BenchmarkAPILoad measures what nodes with node-dns, and with CoreDNS's informers, cost a real API
// server: at the start of all nodes at once, at changes, and at its restart. More nodes than
// maxWithState run only node-dns and start with a saved state. It runs once (-benchtime 1x), and
// writes bench/results/scale.txt, or scale-saved.txt with so many nodes.
func BenchmarkAPILoad(b *testing.B) {
	head := fmt.Sprintf("%s, %s\n%s, load averages before: %s\n\n", time.Now().UTC().Format("2006-01-02 15:04 MST"),
		machine.Revision(b.Context()), machine.Read(nil).CPU, machine.Load())
	results := map[string]string{}
	for _, size := range apiSizes(b) {
		c := newKube(b, kube.Config{Audit: true})
		fillScale(b, c, size.services)
		if size.nodes > maxWithState {
			b.Run(fmt.Sprintf("%dx%d/saved", size.nodes, size.services), func(b *testing.B) {
				f := newAPIFleet(b, c, "node-dns", size.nodes)
				f.savedEvents(size.services + 1)
				results["scale-saved.txt"] += strings.Join(f.lines, "\n") + "\n"
			})
			continue
		}
		for i, client := range []string{"node-dns", "coredns"} {
			b.Run(fmt.Sprintf("%dx%d/%s", size.nodes, size.services, client), func(b *testing.B) {
				f := newAPIFleet(b, c, client, size.nodes)
				f.events(size.services+1+2*i, i)
				results["scale.txt"] += strings.Join(f.lines, "\n") + "\n"
			})
		}
	}
	for name, lines := range results {
		if err := os.WriteFile(filepath.Join(product, "bench/results", name), []byte(head+lines), 0o644); err != nil {
			b.Fatal(err)
		}
	}
}

// events measures all events. services is the number of Services in the cluster.
func (f *apiFleet) events(services, round int) {
	klog.SetSlogLogger(slog.New(slog.DiscardHandler)) // client-go logs each failure
	f.rest()
	f.measure("start", services, f.start)
	name := func(s string) string { return fmt.Sprint(s, "-", round) }
	const changes = 20
	f.measure("changes", services+1, func() {
		f.change(changes, services-1, round%2 == 1, name("changed"), fmt.Sprintf("10.111.%d.1", round))
	})
	f.measure("API server restarts", services+2, func() {
		f.restartAPI()
		f.change(0, services, false, name("restarted"), fmt.Sprintf("10.111.%d.2", round))
	})
	if f.client == "node-dns" {
		f.stop()
		f.states = f.t.TempDir()
		f.measure("start without state", services+2, f.start)
		f.stop() // saves the states
		f.measure("start with state", services+2, f.start)
	}
	f.stop()
}

// savedEvents measures nodes that start with a saved state: their start, a minute without changes,
// the change of one slice, and a restart of the API server. services is the number of Services in
// the cluster.
func (f *apiFleet) savedEvents(services int) {
	f.rest()
	f.shareState(services)
	f.measure("start with state", services, f.start)
	f.measure("no changes", services, func() { time.Sleep(idleTime) })
	f.measure("change of one slice", services+1, func() { f.change(1, services-1, false, "changed", "10.111.0.1") })
	f.measure("API server restarts", services+2, func() {
		f.restartAPI()
		f.change(0, services, false, "restarted", "10.111.0.2")
	})
	f.stop()
}

// rest starts a new API server and measures the CPU time that it takes without nodes.
func (f *apiFleet) rest() {
	f.t.Helper()
	f.restartAPI() // neither client profits from the state that the other left
	time.Sleep(settled)
	f.starts = processorTime(f.t, f.c.APIPID())
	time.Sleep(settled)
	f.idle = float64(processorTime(f.t, f.c.APIPID())-f.starts) / float64(settled)
}

type apiSize struct{ nodes, services int }

func apiSizes(t testing.TB) (all []apiSize) {
	t.Helper()
	rest := *apiNodes
	for rest != "" {
		var s apiSize
		word, after, _ := strings.Cut(rest, ",")
		if _, err := fmt.Sscanf(word, "%dx%d", &s.nodes, &s.services); err != nil {
			t.Fatalf("-apinodes: %q: %v", word, err)
		}
		all, rest = append(all, s), after
	}
	return all
}
