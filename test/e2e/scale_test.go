package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/node-dns/node-dns/internal/test/conformance"
	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/internal/test/lab"
	"github.com/node-dns/node-dns/test/e2e/kube"
)

// Size of the benchmark's cluster: one slice per Service, 100,000 endpoints, every tenth Service
// headless with host names.
const (
	scaleServices  = 10_000
	scaleEndpoints = 10 // per slice
	scaleHeadless  = 10 // every 10th Service is headless
	scaleSpaces    = 100
)

// BenchmarkScale measures a big cluster with node-dns and then with CoreDNS, on the same objects.
// It runs once (-benchtime 1x), because its own time is not the result.
func BenchmarkScale(b *testing.B) {
	c := newKube(b, kube.Config{})
	create(b, c, grants(objects(b, manifestFile))...)
	fill(b, c)
	yardstick(b, c)
	for i, peer := range []struct {
		name  string
		start func(b testing.TB, kubeconfig string) (*lab.Process, netip.AddrPort)
	}{
		{"node-dns", startNodeDNS},
		{"coredns", startCoreDNS},
	} {
		b.Run(peer.name, func(b *testing.B) {
			api, err := url.Parse(c.URL())
			if err != nil {
				b.Fatal(err)
			}
			m := newMeter(b, api.Host)
			kubeconfig, err := c.Kubeconfig(kube.Reader())
			if err != nil {
				b.Fatal(err)
			}
			metered := strings.ReplaceAll(string(kubeconfig), api.Host, m.listener.Addr().String())
			began := time.Now()
			process, addr := peer.start(b, metered)
			s := &subject{b: b, name: peer.name, c: c, meter: m, pid: process.PID(), node: &node{t: b, addr: addr}, ready: i%2 == 1}
			s.firstAnswer(began)
			s.rest()
			s.churn()
			s.relist()
		})
	}
}

// subject is the measured process.
type subject struct {
	b     *testing.B
	name  string
	c     *kube.Cluster
	meter *meter
	pid   int
	node  *node
	ready bool // next readiness that churn sets, so that each slice really changes
}

// firstAnswer waits until the last Service is answered. The server may not be listening yet.
func (s *subject) firstAnswer(began time.Time) {
	last := scaleServices - 1
	query := new(dns.Msg).SetQuestion(scaleName(last)+".", dns.TypeA)
	client := dns.Client{Timeout: time.Second}
	s.node.until("it answers", func() bool {
		response, _, err := client.Exchange(query, s.node.addr.String())
		return err == nil && conformance.Gist(response) == "NOERROR A "+scaleAddr(last)
	})
	s.report("first answer after", time.Since(began).Seconds(), "s")
}

// report records a number for the table and for tools such as benchstat.
func (s *subject) report(what string, value float64, unit string) {
	s.b.ReportMetric(value, strings.ReplaceAll(what+" "+unit, " ", "-"))
	measured.note("%-10s %-40s %8.1f %s", s.name, what, value, unit)
}

// rest waits until the memory of the first sync is returned to the system. Go does that gradually
// over some minutes.
func (s *subject) rest() {
	time.Sleep(20 * time.Second)
	s.report("received by the first sync", float64(s.meter.received.Load())/1e6, "MB")
	s.report("most memory until then", memory(s.b, s.pid, "VmHWM"), "MiB")
	s.report("memory at rest", memory(s.b, s.pid, "VmRSS"), "MiB")
}

// churn changes 1,000 endpoints a second: 100 slices of ten, spread over all Services.
func (s *subject) churn() {
	const perSecond, seconds = 1000 / scaleEndpoints, 20
	received, used, began := s.meter.received.Load(), processorTime(s.b, s.pid), time.Now()
	tick := time.NewTicker(time.Second / perSecond)
	defer tick.Stop()
	group, ctx := errgroup.WithContext(s.b.Context())
	group.SetLimit(8)
	for i := range perSecond * seconds {
		<-tick.C
		o := scaleSlice(s.b, i*7%scaleServices, s.ready)
		group.Go(func() error {
			_, err := s.c.Client(o).Update(ctx, o, metav1.UpdateOptions{})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		s.b.Fatal(err)
	}
	time.Sleep(time.Second)
	took := time.Since(began).Seconds()
	s.report("endpoints changed", perSecond*seconds*scaleEndpoints/took, "a second")
	s.report("processor at 1,000 endpoints a second", float64((processorTime(s.b, s.pid)-used).Milliseconds())/took, "ms/s")
	s.report("received at 1,000 endpoints a second", float64(s.meter.received.Load()-received)/1e3/took, "kB/s")
	s.report("memory after that", memory(s.b, s.pid, "VmRSS"), "MiB")
}

// relist kills the API server. Its new watch cache is empty, so clients with older watches must
// list again.
func (s *subject) relist() {
	forgetPeak(s.b, s.pid)
	received := s.meter.received.Load()
	s.c.KillAPI()
	if err := s.c.StartAPI(s.b.Context()); err != nil {
		s.b.Fatal(err)
	}
	marker := service(s.b, "default", "marker", "{clusterIP: 10.111.255.1, ports: [{port: 80}]}")
	create(s.b, s.c, marker)
	defer remove(s.b, s.c, marker)
	s.node.answers("marker.default.svc.cluster.local", "A", "NOERROR A 10.111.255.1")
	time.Sleep(20 * time.Second)
	s.report("received by a forced relist", float64(s.meter.received.Load()-received)/1e6, "MB")
	s.report("most memory in a relist", memory(s.b, s.pid, "VmHWM"), "MiB")
	s.report("memory after a relist", memory(s.b, s.pid, "VmRSS"), "MiB")
}

func startNodeDNS(b testing.TB, kubeconfig string) (*lab.Process, netip.AddrPort) {
	n := newNode(b)
	n.write(kubeconfigPath, kubeconfig)
	n.start()
	return n.process, n.addr
}

// startCoreDNS starts CoreDNS with kubeadm's configuration, limited to the plugins for the cluster.
func startCoreDNS(b testing.TB, kubeconfig string) (*lab.Process, netip.AddrPort) {
	dir := b.TempDir()
	addr := dnstest.FreePort(b)
	config := fmt.Sprintf(`cluster.local in-addr.arpa ip6.arpa {
	bind %s
	kubernetes cluster.local in-addr.arpa ip6.arpa {
		kubeconfig %s/kubeconfig
		pods insecure
		fallthrough in-addr.arpa ip6.arpa
		ttl 30
	}
	loadbalance
}
`, addr.Addr(), dir)
	for name, text := range map[string]string{"kubeconfig": kubeconfig, "Corefile": config} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	process, err := lab.Beside(lab.Command{Argv: []string{
		filepath.Join(programs(b), "coredns"), "-conf", dir + "/Corefile", "-dns.port", fmt.Sprint(addr.Port()),
	}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(process.Stop)
	return process, addr
}

// yardstick records how many bytes a client receives that lists Services and slices, compressed.
func yardstick(b *testing.B, c *kube.Cluster) {
	b.Helper()
	kubeconfig, err := c.Kubeconfig(kube.Reader())
	if err != nil {
		b.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		b.Fatal(err)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		b.Fatal(err)
	}
	var octets int64
	for _, path := range []string{
		"/api/v1/services?resourceVersion=0",
		"/apis/discovery.k8s.io/v1/endpointslices?resourceVersion=0",
	} {
		request, err := http.NewRequestWithContext(b.Context(), http.MethodGet, c.URL()+path, nil)
		if err != nil {
			b.Fatal(err)
		}
		request.Header.Set("Accept", "application/vnd.kubernetes.protobuf")
		request.Header.Set("Accept-Encoding", "gzip") // set explicitly, so that the body stays compressed
		response, err := client.Do(request)
		if err != nil {
			b.Fatal(err)
		}
		n, err := io.Copy(io.Discard, response.Body)
		response.Body.Close()
		if err != nil || response.StatusCode != http.StatusOK {
			b.Fatalf("%s: %s, %v", path, response.Status, err)
		}
		octets += n
	}
	measured.note("Services and slices, protobuf and gzip: %.1f MB", float64(octets)/1e6)
}

func fill(b *testing.B, c *kube.Cluster) {
	b.Helper()
	began := time.Now()
	for i := range scaleSpaces {
		create(b, c, namespace(b, scaleSpace(i)))
	}
	group, ctx := errgroup.WithContext(b.Context())
	group.SetLimit(8)
	for i := range scaleServices {
		service, slice := scaleService(b, i), scaleSlice(b, i, true)
		group.Go(func() error { return c.Apply(ctx, service, slice) })
	}
	if err := group.Wait(); err != nil {
		b.Fatal(err)
	}
	measured.note("%d services and %d slices created in %v", scaleServices, scaleServices, time.Since(began).Round(time.Second))
}
