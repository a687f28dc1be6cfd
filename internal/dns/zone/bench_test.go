package zone_test

import (
	"context"
	"fmt"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/zone"
)

// bigCluster fills a Builder with Services of two named ports; every tenth is headless with
// hostnames. Each Service, or each headless one only, has a slice of ten endpoints. This is the
// data of the memory figures in docs/reference/cluster-zone.md.
func bigCluster(services int, headlessOnly bool) *zone.Builder {
	b := new(zone.Builder)
	for i := range services {
		b.SetService(bigService(i))
		if i%10 == 0 || !headlessOnly {
			b.SetSlice(bigSlice(i, 0))
		}
	}
	return b
}

func bigKey(i int) zone.Key {
	return zone.Key{Namespace: fmt.Sprintf("team-%03d", i%100), Name: fmt.Sprintf("service-%05d", i)}
}

func bigService(i int) *zone.Service {
	s := &zone.Service{
		Key: bigKey(i), HasSelector: true,
		Ports: []zone.Port{{Name: "http", Number: 80}, {Name: "metrics", Number: 9090}},
	}
	if i%10 == 0 {
		s.Kind = zone.Headless
	} else {
		s.ClusterIPs = []netip.Addr{netip.AddrFrom4([4]byte{172, 30, byte(i >> 8), byte(i)})}
	}
	return s
}

// bigSlice returns the slice of Service i. Each value of change gives its first endpoint another
// address.
func bigSlice(i, change int) *zone.Slice {
	key := bigKey(i)
	s := &zone.Slice{
		Key: zone.Key{Namespace: key.Namespace, Name: key.Name + "-x7k2p"}, Service: key.Name,
		Ports: []zone.Port{{Name: "http", Number: 8080}, {Name: "metrics", Number: 9090}},
	}
	for j := range 10 {
		n := 10*i + j
		e := zone.Endpoint{Addr: netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)}), Ready: true, Zone: "zone-a"}
		e.Pod = fmt.Sprintf("%s-6f7d9c5b4-%05d", key.Name, j)
		if i%10 == 0 {
			e.Hostname = fmt.Sprintf("%s-%d", key.Name, j)
		}
		s.Endpoints = append(s.Endpoints, e)
	}
	s.Endpoints[0].Addr = netip.AddrFrom4([4]byte{10, 200 + byte(change%50), byte(i >> 8), byte(i)})
	return s
}

// wideService adds a headless Service with n endpoints in slices of 100.
func wideService(b *zone.Builder, n int, hostnames bool) {
	key := zone.Key{Namespace: "team-000", Name: "wide"}
	b.SetService(&zone.Service{Key: key, Kind: zone.Headless})
	for i := 0; i < n; i += 100 {
		s := &zone.Slice{
			Key: zone.Key{Namespace: key.Namespace, Name: fmt.Sprintf("wide-%05d", i)}, Service: key.Name,
			Ports: []zone.Port{{Name: "http", Number: 8080}},
		}
		for j := i; j < min(i+100, n); j++ {
			e := zone.Endpoint{Addr: netip.AddrFrom4([4]byte{10, 250, byte(j >> 8), byte(j)}), Ready: true}
			if hostnames {
				e.Hostname = fmt.Sprintf("wide-%d", j)
			}
			s.Endpoints = append(s.Endpoints, e)
		}
		b.SetSlice(s)
	}
}

func packedQuery(t testing.TB, name string, qtype uint16) []byte {
	t.Helper()
	m := new(dns.Msg).SetQuestion(name, qtype)
	m.SetEdns0(1232, false)
	wire, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return wire
}

func bigResolver(t testing.TB, config zone.Config) *zone.Resolver {
	t.Helper()
	b := bigCluster(10_000, true)
	wideService(b, 1000, true)
	config.Domains = names("cluster.local")
	config.Next = answerer(fromNext)
	resolver := zone.NewResolver(config)
	resolver.Set(b.Snapshot(time.Unix(1, 0)))
	return resolver
}

var benchmarks = []struct {
	name, ask string
	qtype     uint16
	profile   zone.Profile
	limit     int
}{
	{"A of a ClusterIP", "service-04711.team-011.svc.cluster.local.", dns.TypeA, zone.Kubernetes, 1232},
	{"AAAA of a ClusterIP", "service-04711.team-011.svc.cluster.local.", dns.TypeAAAA, zone.Kubernetes, 1232},
	{"search miss", "google.com.team-011.svc.cluster.local.", dns.TypeA, zone.Kubernetes, 1232},
	{"search miss, openshift", "google.com.team-011.svc.cluster.local.", dns.TypeA, zone.OpenShift, 1232},
	{"SRV of a ClusterIP", "_http._tcp.service-04711.team-011.svc.cluster.local.", dns.TypeSRV, zone.Kubernetes, 1232},
	{"SRV of 10 endpoints", "_http._tcp.service-04710.team-010.svc.cluster.local.", dns.TypeSRV, zone.Kubernetes, 1232},
	{"A of 10 endpoints", "service-04710.team-010.svc.cluster.local.", dns.TypeA, zone.Kubernetes, 1232},
	{"A of a host", "service-04710-7.service-04710.team-010.svc.cluster.local.", dns.TypeA, zone.Kubernetes, 1232},
	{"A of 1000 endpoints over UDP", "wide.team-000.svc.cluster.local.", dns.TypeA, zone.Kubernetes, 1232},
	{"A of 1000 endpoints over TCP", "wide.team-000.svc.cluster.local.", dns.TypeA, zone.Kubernetes, dns.MaxMsgSize},
	{"A of one host of 1000", "wide-999.wide.team-000.svc.cluster.local.", dns.TypeA, zone.Kubernetes, dns.MaxMsgSize},
	{"SRV of 1000 endpoints over TCP", "_http._tcp.wide.team-000.svc.cluster.local.", dns.TypeSRV, zone.Kubernetes, dns.MaxMsgSize},
	{"PTR of a ClusterIP", "103.18.30.172.in-addr.arpa.", dns.TypePTR, zone.Kubernetes, 1232},
	{"PTR of an endpoint", "1.0.250.10.in-addr.arpa.", dns.TypePTR, zone.Kubernetes, 1232},
	{"not a cluster name", "www.example.com.", dns.TypeA, zone.Kubernetes, 1232},
}

// BenchmarkAppendResponse measures a query from the received bytes to the bytes to send.
// BenchmarkHit in package cache measures the same for a cached response.
func BenchmarkAppendResponse(b *testing.B) {
	resolvers := map[zone.Profile]*zone.Resolver{}
	for _, bench := range benchmarks {
		if resolvers[bench.profile] == nil {
			resolvers[bench.profile] = bigResolver(b, zone.Config{Profile: bench.profile, TTL: -1, NegativeTTL: -1})
		}
		resolver := resolvers[bench.profile]
		b.Run(bench.name, func(b *testing.B) {
			query := packedQuery(b, bench.ask, bench.qtype)
			buf := make([]byte, 0, dns.MaxMsgSize)
			b.ReportAllocs()
			for b.Loop() {
				resolver.AppendResponse(buf, query, bench.limit)
			}
		})
	}
}

func BenchmarkServeDNS(b *testing.B) {
	resolver := bigResolver(b, zone.Config{TTL: -1, NegativeTTL: -1})
	for _, bench := range benchmarks[:3] {
		b.Run(bench.name, func(b *testing.B) {
			q := &dnsserver.Query{Msg: new(dns.Msg).SetQuestion(bench.ask, bench.qtype), Name: names(bench.ask)[0]}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := resolver.ServeDNS(context.Background(), q); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkChanges changes one endpoint at a time, with a Snapshot for every hundred changes: a
// debounce of 100 ms at a thousand changes per second, in the cluster of the memory figures.
func BenchmarkChanges(b *testing.B) {
	builder := bigCluster(10_000, false)
	builder.Snapshot(time.Unix(1, 0))
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		service := i * 7919 % 10_000
		builder.SetSlice(bigSlice(service, i/10_000+1))
		if i%100 == 99 {
			builder.Snapshot(time.Unix(int64(i), 0))
		}
	}
}

// BenchmarkFill reports the heap size of a Builder and its Snapshot in MiB.
func BenchmarkFill(b *testing.B) {
	for _, size := range []struct {
		name         string
		headlessOnly bool
	}{{"10k services, 10k endpoints", true}, {"10k services, 100k endpoints", false}} {
		b.Run(size.name, func(b *testing.B) {
			for b.Loop() {
				b.ReportMetric(heapOf(func() any {
					builder := bigCluster(10_000, size.headlessOnly)
					return []any{builder, builder.Snapshot(time.Unix(1, 0))}
				}), "MiB")
			}
		})
	}
}

// heapOf returns the heap size of the result of build in MiB.
func heapOf(build func() any) float64 {
	before := heap()
	kept := build()
	after := heap()
	runtime.KeepAlive(kept)
	return float64(after-before) / (1 << 20)
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
