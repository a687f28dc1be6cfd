package zone_test

import (
	"bytes"
	"fmt"
	"net/netip"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/zone"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// wire returns query in the form that dnsserver passes on.
func wire(t testing.TB, query *dns.Msg, limit int) dnsserver.WireQuery {
	t.Helper()
	packed, err := query.Pack()
	if err != nil {
		t.Fatal(err)
	}
	_, end, err := dns.UnpackDomainName(packed, 12)
	if err != nil {
		t.Fatal(err)
	}
	opt := query.IsEdns0()
	return dnsserver.WireQuery{Msg: packed, Limit: limit, End: end + 4, EDNS: opt != nil, DO: opt != nil && opt.Do()}
}

func ready(resolver *zone.Resolver, dst []byte, q dnsserver.WireQuery) ([]byte, bool) {
	return resolver.AppendReady(dst, &q, q.AppendKey(nil))
}

// clients send the same question in all ways that affect the response.
var clients = []struct {
	name   string
	limit  int
	change func(*dns.Msg)
	inCase bool // the name has the letter case of the stored response
}{
	{"over TCP", dns.MaxMsgSize, func(*dns.Msg) {}, true},
	{"smallest size", dns.MinMsgSize, func(m *dns.Msg) { m.RecursionDesired = false }, true},
	{"EDNS", 1232, func(m *dns.Msg) { m.SetEdns0(1232, false); m.CheckingDisabled = true }, true},
	{"DO and a small limit", 600, func(m *dns.Msg) { m.SetEdns0(600, true) }, true},
	{"an option", 700, func(m *dns.Msg) {
		m.SetEdns0(4096, false)
		m.IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: "0102030405060708"}}
	}, true},
	{"in capitals", 1232, func(m *dns.Msg) { m.Question[0].Name = strings.ToUpper(m.Question[0].Name) }, false},
	{"in mixed case", 1232, func(m *dns.Msg) { m.Question[0].Name = mixed(m.Question[0].Name); m.SetEdns0(1232, true) }, false},
}

func mixed(name string) string {
	var out strings.Builder
	for i, c := range name {
		out.WriteString([]string{string(c), strings.ToUpper(string(c))}[i%2])
	}
	return out.String()
}

// readyNames returns names of every kind in the cluster that most rows use, and one with too many
// endpoints to be stored.
func readyNames() (all []string) {
	for _, service := range []string{"web", "idle", "db", "peers", "pair", "multi", "mail", "alias", "dangling", "literal", "literal6", "wide", "nothing"} {
		for _, below := range []string{"", "_http._tcp.", "_sql._tcp.", "_a._tcp.", "_smtp._tcp.", "_none._udp.", "_tcp.", "db-0.", "one.", "10-4-0-2.", "a.b."} {
			all = append(all, below+service+".shop.svc.cluster.local.")
		}
	}
	return append(all, "cluster.local.", "svc.cluster.local.", "shop.svc.cluster.local.", "void.svc.cluster.local.", "zonal.shop.svc.cluster.local.", "_http._tcp.zonal.shop.svc.cluster.local.", "www.example.com.shop.svc.cluster.local.",
		"dns-version.cluster.local.", "ns.dns.cluster.local.", "10-6-0-1.pods.pod.cluster.local.", "kubernetes.default.svc.cluster.local.",
		"10.0.30.172.in-addr.arpa.", "1.0.2.10.in-addr.arpa.", "1.0.4.10.in-addr.arpa.", "77.0.30.172.in-addr.arpa.", "30.172.in-addr.arpa.",
		"1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.2.0.0.0.0.0.d.f.ip6.arpa.", "www.example.com.",
		strings.Repeat(strings.Repeat("x", 63)+".", 3)+strings.Repeat("y", 43)+".svc.cluster.local.")
}

// TestReady: each ready response equals the composed one byte by byte, for each client and each
// rotation. Every short response to a repeated question is ready.
func TestReady(t *testing.T) {
	if lab.RaceEnabled {
		t.Skip("computes in one goroutine; make test runs it without -race")
	}
	types := []uint16{
		dns.TypeA, dns.TypeAAAA, dns.TypeSRV, dns.TypePTR, dns.TypeTXT, dns.TypeNS, dns.TypeSOA, dns.TypeCNAME, dns.TypeANY, dns.TypeMX,
		dns.TypeHTTPS, dns.TypeDS, 65535,
	}
	for name, change := range map[string]func(*zone.Config){
		"kubernetes": nil, "openshift": openShift, "networks": networks, "nameservers": nameservers, "two domains": second, "TTLs": ttls,
		"same zone first": func(c *zone.Config) { c.SameZoneFirst = true },
	} {
		t.Run(name, func(t *testing.T) {
			first := 0
			resolver := resolverOf(t, shop+manyEndpoints(60)+inZones, func(c *zone.Config) {
				if change != nil {
					change(c)
				}
				c.Rotate = func(n int) int { return first % n }
			})
			kept := 0
			for _, ask := range readyNames() {
				for _, qtype := range types {
					kept += checkReady(t, resolver, new(dns.Msg).SetQuestion(ask, qtype), &first)
				}
			}
			if kept < 1000 {
				t.Errorf("got %d ready responses", kept)
			}
		})
	}
}

// TestReadySizes: responses around the size limit for storing, and around the size limit for
// additional records, for any first client and letter case.
func TestReadySizes(t *testing.T) {
	var first []dnsserver.WireQuery
	resolver := resolverOf(t, "", nil)
	b := cluster(t, "")
	for length := 1; length <= 24; length++ {
		for n := range 30 {
			name := strings.Repeat("s", length) + fmt.Sprint(n)
			slice := &zone.Slice{Key: zone.Key{Namespace: "a", Name: name}, Service: name, Ports: []zone.Port{{Name: "http", Number: 80}}}
			for i := range n {
				slice.Endpoints = append(slice.Endpoints, zone.Endpoint{Addr: netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), Ready: true})
			}
			b.SetService(&zone.Service{Key: slice.Key, Kind: zone.Headless})
			b.SetSlice(slice)
		}
	}
	resolver.Set(b.Snapshot(newest))
	sizes := map[bool]int{}
	for length := 1; length <= 24; length++ {
		for n := range 30 {
			for _, qtype := range []uint16{dns.TypeA, dns.TypeSRV} {
				ask := func(limit int, edns, upper bool) dnsserver.WireQuery {
					query := new(dns.Msg).SetQuestion(fmt.Sprintf("%s%d.a.svc.cluster.local.", strings.Repeat("s", length), n), qtype)
					if upper {
						query.Question[0].Name = strings.ToUpper(query.Question[0].Name)
					}
					if edns {
						query.SetEdns0(1232, false)
					}
					return wire(t, query, limit)
				}
				first = append(first[:0], ask(512, false, true), ask(512, true, false), ask(1232, false, false), ask(1232, true, false))
				for range 2 {
					resolver.AppendResponse(nil, first[(length+n)%4].Msg, first[(length+n)%4].Limit)
				}
				for _, q := range first {
					got, ok := ready(resolver, nil, q)
					want, _ := resolver.AppendResponse(nil, q.Msg, q.Limit)
					if ok && !bytes.Equal(got, want) {
						t.Fatalf("%d endpoints, within %d:\nready    %x\ncomposed %x", n, q.Limit, got, want)
					}
					if sizes[ok]++; !ok && n == 1 && qtype == dns.TypeA {
						t.Fatalf("a response with one address is not ready")
					}
				}
			}
		}
	}
	if sizes[true] < 1000 || sizes[false] < 1000 {
		t.Errorf("ready and other responses: %v", sizes)
	}
}

func manyEndpoints(n int) string {
	lines := "headless shop/wide\nslice shop/wide-1 wide a:1"
	for i := range n {
		lines += fmt.Sprintf(" 10.9.0.%d", i)
	}
	return lines
}

// checkReady sends the question as each client and returns how often the response was ready.
func checkReady(t *testing.T, resolver *zone.Resolver, query *dns.Msg, first *int) (kept int) {
	t.Helper()
	plain := wire(t, query, dns.MaxMsgSize)
	var whole []byte
	answered := false
	for range 2 {
		if _, ok := ready(resolver, nil, plain); ok {
			t.Fatalf("%s: stored after a single question", &query.Question[0])
		}
		whole, answered = resolver.AppendResponse(nil, plain.Msg, plain.Limit)
	}
	isLookedFor := !strings.HasSuffix(query.Question[0].Name, ".arpa.") || query.Question[0].Qtype == dns.TypePTR
	for _, client := range clients {
		asked := query.Copy()
		client.change(asked)
		q, size := wire(t, asked, client.limit), 0
		if q.EDNS {
			size = 11
		}
		for *first = range 4 {
			got, ok := ready(resolver, []byte("before"), q)
			isShort := answered && len(whole) <= 512
			if mustBe := isShort && isLookedFor && client.inCase && len(whole)+size <= client.limit; mustBe && !ok || ok && !isShort {
				t.Fatalf("%s, %s: ready %v, of %d octets", &query.Question[0], client.name, ok, len(whole))
			}
			if !ok {
				if string(got) != "before" {
					t.Fatalf("%s, %s: appended %x", &query.Question[0], client.name, got)
				}
				continue
			}
			kept++
			want, composed := resolver.AppendResponse([]byte("before"), q.Msg, q.Limit)
			if !composed || !bytes.Equal(got, want) {
				t.Fatalf("%s, %s, from record %d:\nready    %x\ncomposed %x", &query.Question[0], client.name, *first, got, want)
			}
		}
	}
	return kept
}

// TestReadyOfItsSnapshot: as soon as there is a new Snapshot, no client gets an answer from the old
// one, however many queries arrive at that time.
func TestReadyOfItsSnapshot(t *testing.T) {
	resolver := resolverOf(t, "service shop/web 10.0.0.0", nil)
	var published atomic.Uint32
	done := make(chan struct{})
	for range 2 {
		go func() {
			defer func() { done <- struct{}{} }()
			q := wire(t, new(dns.Msg).SetQuestion("web.shop.svc.cluster.local.", dns.TypeA), 512)
			key := q.AppendKey(nil)
			for n := 0; n < 2000; {
				least := published.Load()
				response, ok := resolver.AppendReady(nil, &q, key)
				if !ok {
					response, _ = resolver.AppendResponse(nil, q.Msg, q.Limit)
				} else {
					n++
				}
				end := len(response)
				if got := uint32(response[end-2])<<8 | uint32(response[end-1]); got < least {
					t.Errorf("got version %d after version %d", got, least)
					return
				}
				runtime.Gosched()
			}
		}()
	}
	b := cluster(t, "")
	for i, running := uint32(1), 2; running > 0; i++ {
		b.SetService(&zone.Service{Key: zone.Key{Namespace: "shop", Name: "web"}, ClusterIPs: []netip.Addr{netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)})}})
		resolver.Set(b.Snapshot(newest))
		published.Store(i & 0xffff)
		for range 20 {
			runtime.Gosched()
		}
		select {
		case <-done:
			running--
		default:
		}
	}
}

// TestReadyIsBounded: any number of names that are queried repeatedly take no more than the
// documented memory.
func TestReadyIsBounded(t *testing.T) {
	if lab.RaceEnabled {
		t.Skip("computes in one goroutine; make test runs it without -race")
	}
	resolver := bigResolver(t, zone.Config{TTL: -1, NegativeTTL: -1})
	kept := heapOf(func() any {
		for i := range 100_000 {
			query := packedQuery(t, fmt.Sprintf("%s-%d.team-000.svc.cluster.local.", strings.Repeat("long-", 10), i), dns.TypeA)
			for range 3 {
				resolver.AppendResponse(nil, query, 1232)
			}
		}
		return resolver
	})
	if kept > 12 {
		t.Errorf("got %.1f MiB", kept)
	}
}

// TestStaleIsNotReady: a stale answer is marked differently for each client, so it is composed each
// time.
func TestStaleIsNotReady(t *testing.T) {
	resolver := resolverOf(t, shop, nil)
	resolver.Set(resolver.Snapshot().Stale())
	q := wire(t, new(dns.Msg).SetQuestion("web.shop.svc.cluster.local.", dns.TypeA), 512)
	for range 3 {
		if _, ok := resolver.AppendResponse(nil, q.Msg, q.Limit); !ok {
			t.Fatal("got no answer")
		}
	}
	if _, ok := ready(resolver, nil, q); ok {
		t.Error("a stale answer is ready")
	}
}

// TestAppendReadyAllocates: AppendReady does not allocate.
func TestAppendReadyAllocates(t *testing.T) {
	resolver := bigResolver(t, zone.Config{TTL: -1, NegativeTTL: -1})
	buf, asked := make([]byte, 0, dns.MaxMsgSize), 0
	for _, bench := range benchmarks {
		query := packedQuery(t, bench.ask, bench.qtype)
		resolver.AppendResponse(buf, query, bench.limit)
		resolver.AppendResponse(buf, query, bench.limit)
		q := benchQuery(t, bench.ask, bench.qtype, bench.limit)
		key := q.AppendKey(nil)
		if _, ok := resolver.AppendReady(buf, &q, key); ok {
			asked++
		}
		if n := testing.AllocsPerRun(100, func() { resolver.AppendReady(buf, &q, key) }); n != 0 {
			t.Errorf("%s: got %v allocations, want 0", bench.name, n)
		}
	}
	if asked < 7 {
		t.Errorf("got %d ready responses", asked)
	}
}

func benchQuery(t testing.TB, name string, qtype uint16, limit int) dnsserver.WireQuery {
	return wire(t, new(dns.Msg).SetQuestion(name, qtype).SetEdns0(1232, false), limit)
}

// BenchmarkAppendReady is BenchmarkAppendResponse for questions with a stored response.
func BenchmarkAppendReady(b *testing.B) {
	resolver := bigResolver(b, zone.Config{TTL: -1, NegativeTTL: -1})
	for _, bench := range benchmarks {
		q := benchQuery(b, bench.ask, bench.qtype, bench.limit)
		buf := make([]byte, 0, dns.MaxMsgSize)
		for range 2 {
			resolver.AppendResponse(buf, q.Msg, q.Limit)
		}
		if _, ok := ready(resolver, buf, q); !ok {
			continue
		}
		b.Run(bench.name, func(b *testing.B) {
			var room [259]byte
			b.ReportAllocs()
			for b.Loop() {
				resolver.AppendReady(buf, &q, q.AppendKey(room[:0]))
			}
		})
	}
}
