package e2e

import (
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/node-dns/node-dns/internal/lab"
	"github.com/node-dns/node-dns/test/e2e/kube"
)

// The cluster of the benchmark: as many Services as slices, 100,000 endpoints, every tenth Service headless with host names.
const (
	scaleServices  = 10_000
	scaleEndpoints = 10 // of a slice
	scaleHeadless  = 10 // every so many
	scaleSpaces    = 100
)

// BenchmarkScale follows a big cluster, with node-dns and with CoreDNS, one after the other on the same objects. It runs once
// (-benchtime 1x): what it measures is not its time.
func BenchmarkScale(b *testing.B) {
	c := newKube(b, kube.Config{})
	create(b, c, grants(objects(b, manifestFile))...)
	fill(b, c)
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
			s := &subject{b: b, c: c, meter: m, pid: process.PID(), node: &node{t: b, addr: addr}, ready: i%2 == 1}
			s.firstAnswer(began)
			s.rest()
			s.churn()
			s.relist()
		})
	}
}

// subject is the process that is measured.
type subject struct {
	b     *testing.B
	c     *kube.Cluster
	meter *meter
	pid   int
	node  *node
	ready bool // what churn makes of endpoints: each slice must really change
}

func (s *subject) firstAnswer(began time.Time) {
	last := scaleServices - 1
	s.node.answers(scaleName(last), "A", "NOERROR A "+scaleAddr(last))
	s.b.ReportMetric(float64(time.Since(began).Milliseconds()), "first-answer-ms")
}

// rest waits until what the first sync left is given back to the system: Go does that within some minutes, as it needs.
func (s *subject) rest() {
	time.Sleep(20 * time.Second)
	s.b.ReportMetric(float64(s.meter.received.Load())/1e6, "sync-received-MB")
	s.b.ReportMetric(memory(s.b, s.pid, "VmHWM"), "sync-peak-MiB")
	s.b.ReportMetric(memory(s.b, s.pid, "VmRSS"), "rest-MiB")
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
	s.b.ReportMetric(float64((processorTime(s.b, s.pid)-used).Milliseconds())/took, "churn-cpu-ms/s")
	s.b.ReportMetric(float64(s.meter.received.Load()-received)/1e3/took, "churn-received-kB/s")
	s.b.ReportMetric(memory(s.b, s.pid, "VmRSS"), "churn-MiB")
}

// relist kills the API server: its watch cache begins anew, and whoever watched from before must list again.
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
	s.b.ReportMetric(float64(s.meter.received.Load()-received)/1e6, "relist-received-MB")
	s.b.ReportMetric(memory(s.b, s.pid, "VmHWM"), "relist-peak-MiB")
	s.b.ReportMetric(memory(s.b, s.pid, "VmRSS"), "relist-rest-MiB")
}

func startNodeDNS(b testing.TB, kubeconfig string) (*lab.Process, netip.AddrPort) {
	n := newNode(b)
	n.write(kubeconfigPath, kubeconfig)
	n.start()
	return n.process, n.addr
}

// startCoreDNS runs it as kubeadm configures it, but for what is not about the cluster.
func startCoreDNS(b testing.TB, kubeconfig string) (*lab.Process, netip.AddrPort) {
	dir := b.TempDir()
	addr := freeAddr(b)
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

// fill creates the Services and slices.
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
