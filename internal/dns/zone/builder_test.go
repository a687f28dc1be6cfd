package zone_test

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/zone"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// TestChanges: each step reports whether it may change an answer.
func TestChanges(t *testing.T) {
	b := new(zone.Builder)
	web := zone.Key{Namespace: "shop", Name: "web"}
	service := func(line string) *zone.Service {
		for s := range cluster(t, line).Snapshot(newest).Services() {
			return s
		}
		return nil
	}
	slice := func(words string) *zone.Slice {
		return sliceOf(t, zone.Key{Namespace: "shop", Name: "web-1"}, strings.Fields(words))
	}
	key := zone.Key{Namespace: "shop", Name: "web-1"}
	pod := func(words ...string) *zone.Pod { return &zone.Pod{Key: web, Addrs: addrs(words)} }
	long := strings.Repeat("x", 64)
	for i, step := range []struct {
		name string
		do   func() bool
		want bool
	}{
		{"no such Service", func() bool { return b.DeleteService(web) }, false},
		{"new Service", func() bool { return b.SetService(service("service shop/web 10.0.0.1 http:80")) }, true},
		{"same Service", func() bool { return b.SetService(service("service shop/web 10.0.0.1 http:80")) }, false},
		{"another address", func() bool { return b.SetService(service("service shop/web 10.0.0.2 http:80")) }, true},
		{"another port", func() bool { return b.SetService(service("service shop/web 10.0.0.2 http:81")) }, true},
		{"another kind", func() bool { return b.SetService(service("headless shop/web")) }, true},
		{"publishes", func() bool { return b.SetService(service("headless shop/web publish")) }, true},
		{"external", func() bool { return b.SetService(service("external shop/web a.example")) }, true},
		{"another external name", func() bool { return b.SetService(service("external shop/web b.example")) }, true},
		{"invalid label", func() bool { return b.SetService(&zone.Service{Key: zone.Key{Namespace: "shop", Name: long}}) }, false},
		{"an invalid label is ignored", func() bool { return b.DeleteService(zone.Key{Namespace: "", Name: "web"}) }, false},

		{"no such slice", func() bool { return b.DeleteSlice(key) }, false},
		{"new slice", func() bool { return b.SetSlice(slice("web http:80 10.1.0.1=a@zone")) }, true},
		{"the same slice", func() bool { return b.SetSlice(slice("web http:80 10.1.0.1=a@zone")) }, false},
		{"unready", func() bool { return b.SetSlice(slice("web http:80 !10.1.0.1=a@zone")) }, true},
		{"another hostname", func() bool { return b.SetSlice(slice("web http:80 !10.1.0.1=b@zone")) }, true},
		{"another zone", func() bool { return b.SetSlice(slice("web http:80 !10.1.0.1=b")) }, true},
		{"a pod", func() bool { return b.SetSlice(slice("web http:80 !10.1.0.1=b+pod")) }, true},
		{"another port of the slice", func() bool { return b.SetSlice(slice("web http:81 !10.1.0.1=b+pod")) }, true},
		{"another Service", func() bool { return b.SetSlice(slice("api http:81 !10.1.0.1=b+pod")) }, true},
		{"slice without a Service", func() bool { return b.SetSlice(&zone.Slice{Key: key}) }, true},
		{"slice was removed with it", func() bool { return b.DeleteSlice(key) }, false},

		{"Endpoints", func() bool { return b.SetEndpoints(web, []zone.Slice{*slice("web 10.1.0.1"), *slice("web 10.1.0.2")}) }, true},
		{"the same Endpoints", func() bool { return b.SetEndpoints(web, []zone.Slice{*slice("web 10.1.0.1"), *slice("web 10.1.0.2")}) }, false},
		{"one subset fewer", func() bool { return b.SetEndpoints(web, []zone.Slice{*slice("web 10.1.0.1")}) }, true},
		{"the second is removed", func() bool { return b.SetEndpoints(web, []zone.Slice{*slice("web 10.1.0.1")}) }, false},
		{"delete the Endpoints", func() bool { return b.DeleteEndpoints(web) }, true},
		{"no such Endpoints", func() bool { return b.DeleteEndpoints(web) }, false},

		{"namespace", func() bool { return b.SetNamespace("shop") }, true},
		{"the same namespace", func() bool { return b.SetNamespace("shop") }, false},
		{"delete the namespace", func() bool { return b.DeleteNamespace("shop") }, true},
		{"no such namespace", func() bool { return b.DeleteNamespace("shop") }, false},
		{"namespace that is not a label", func() bool { return b.SetNamespace("a.b") }, false},

		{"pod", func() bool { return b.SetPod(pod("10.1.0.1")) }, true},
		{"the same pod", func() bool { return b.SetPod(pod("10.1.0.1")) }, false},
		{"pod with two addresses", func() bool { return b.SetPod(pod("10.1.0.1", "fd00::1")) }, true},
		{"pod with a search list of its own", func() bool {
			own := pod("10.1.0.1", "fd00::1")
			own.OwnSearch = true
			return b.SetPod(own)
		}, true},
		{"pod with the kubelet's search list", func() bool { return b.SetPod(pod("10.1.0.1", "fd00::1")) }, true},
		{"delete the pod", func() bool { return b.DeletePod(web) }, true},
		{"no such pod", func() bool { return b.DeletePod(web) }, false},
		{"delete the Service", func() bool { return b.DeleteService(web) }, true},
	} {
		before := b.Snapshot(newest)
		if got := step.do(); got != step.want {
			t.Errorf("%d, %s: changed %t", i, step.name, got)
		}
		if after := b.Snapshot(newest); (after != before) != step.want {
			t.Errorf("%d, %s: another Snapshot %t", i, step.name, after != before)
		}
	}
	if counts := b.Snapshot(newest).Counts(); counts != (zone.Counts{}) {
		t.Errorf("got counts %+v, want none", counts)
	}
}

// seeds is the number of histories; it may be raised.
const seeds = uint64(10)

// history applies the same random changes to a Builder and to a model of the cluster. There are few
// names, so that objects collide.
type history struct {
	rand       *rand.Rand
	builder    *zone.Builder
	services   map[zone.Key]*zone.Service
	slices     map[zone.Key]*zone.Slice
	pods       map[zone.Key]*zone.Pod
	namespaces map[string]bool
}

func newHistory(seed uint64) *history {
	return &history{
		rand: rand.New(rand.NewPCG(seed, 0)), builder: new(zone.Builder), services: map[zone.Key]*zone.Service{},
		slices: map[zone.Key]*zone.Slice{}, pods: map[zone.Key]*zone.Pod{}, namespaces: map[string]bool{},
	}
}

func (h *history) one(of ...string) string { return of[h.rand.IntN(len(of))] }

func (h *history) key() zone.Key {
	return zone.Key{Namespace: h.one("a", "b"), Name: h.one("x", "y")}
}

func (h *history) addr() netip.Addr {
	return netip.MustParseAddr(h.one("10.0.0.1", "10.0.0.2", "10.0.0.3", "fd00::1", "fd00::2"))
}

func (h *history) port() zone.Port {
	return zone.Port{Name: h.one("", "http", "dns"), Number: uint16(h.rand.IntN(3)), Protocol: zone.Protocol(h.rand.IntN(3))}
}

func (h *history) step() {
	key := h.key()
	switch h.rand.IntN(12) {
	case 0:
		h.builder.DeleteService(key)
		delete(h.services, key)
	case 1, 2, 3:
		s := h.service(key)
		h.builder.SetService(s)
		h.services[key] = s
	case 4, 5:
		h.builder.DeleteSlice(key)
		delete(h.slices, key)
	case 6, 7, 8:
		s := h.slice(key)
		h.builder.SetSlice(s)
		h.slices[key] = s
	case 9:
		p := &zone.Pod{Key: key, Addrs: []netip.Addr{h.addr()}}
		h.builder.SetPod(p)
		h.pods[key] = p
	case 10:
		h.builder.DeletePod(key)
		delete(h.pods, key)
	case 11:
		if h.namespaces[key.Namespace] = h.rand.IntN(2) == 0; h.namespaces[key.Namespace] {
			h.builder.SetNamespace(key.Namespace)
		} else {
			h.builder.DeleteNamespace(key.Namespace)
		}
	}
}

func (h *history) service(key zone.Key) *zone.Service {
	s := &zone.Service{Key: key, Kind: zone.Kind(h.rand.IntN(3)), PublishNotReady: h.rand.IntN(2) == 0}
	for range h.rand.IntN(3) {
		s.Ports = append(s.Ports, h.port())
	}
	switch s.Kind {
	case zone.ClusterIP:
		for range h.rand.IntN(3) {
			s.ClusterIPs = append(s.ClusterIPs, h.addr())
		}
	case zone.ExternalName:
		s.ExternalName = h.one("x.a.svc.cluster.local", "www.example", "10.0.0.1", "", "not..a.name", strings.Repeat("x", 70))
	}
	return s
}

func (h *history) slice(key zone.Key) *zone.Slice {
	s := &zone.Slice{Key: key, Service: h.one("x", "y", "")}
	for range h.rand.IntN(3) {
		s.Ports = append(s.Ports, h.port())
	}
	for range h.rand.IntN(4) {
		s.Endpoints = append(s.Endpoints, zone.Endpoint{
			Addr: h.addr(), Hostname: h.one("", "one", "two"), Pod: h.one("", "pod"), Zone: h.one("", "za", "zb"), Ready: h.rand.IntN(3) > 0,
		})
	}
	return s
}

// fromScratch returns a Snapshot of the model, built in random order.
func (h *history) fromScratch() *zone.Snapshot {
	b := new(zone.Builder)
	for _, s := range h.slices {
		b.SetSlice(s)
	}
	for _, s := range h.services {
		b.SetService(s)
	}
	for _, p := range h.pods {
		b.SetPod(p)
	}
	for name, there := range h.namespaces {
		if there {
			b.SetNamespace(name)
		}
	}
	return b.Snapshot(newest)
}

// questions returns all names that a history can create, and some that it cannot.
func questions() []dns.Question {
	hosts := []string{"", "one.", "two.", "pod.", "10-0-0-1.", "fd00--1.", "debebe8d.", "_http._tcp.", "_dns._udp.", "_sctp.", "_endpoints.", "za.pin._zone.", "q.w.", "q._http._tcp.", "q._zone.", "_tcp.", "q._tcp.", "_zone.", "pin._zone."}
	all := []string{"cluster.local.", "svc.cluster.local.", "pod.cluster.local.", "local.dns.cluster.local.", "x.dns.cluster.local."}
	for _, namespace := range []string{"a", "c"} {
		all = append(all, namespace+".svc.cluster.local.", namespace+".endpoints.cluster.local.", namespace+".pod.cluster.local.")
		all = append(all, "10-0-0-1."+namespace+".pod.cluster.local.", "fd00--1."+namespace+".pod.cluster.local.")
		for _, service := range []string{"x", "y", "w"} {
			for _, host := range hosts {
				all = append(all, host+service+"."+namespace+".svc.cluster.local.", host+service+"."+namespace+".endpoints.cluster.local.")
			}
		}
	}
	var questions []dns.Question
	for _, name := range all {
		for _, qtype := range []uint16{dns.TypeA, dns.TypeAAAA, dns.TypeSRV, dns.TypeCNAME} {
			questions = append(questions, dns.Question{Name: name, Qtype: qtype})
		}
	}
	for i := range 5 {
		questions = append(questions, dns.Question{Name: fmt.Sprintf("%d.0.0.10.in-addr.arpa.", i), Qtype: dns.TypePTR})
	}
	return append(questions, dns.Question{Name: "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.d.f.ip6.arpa.", Qtype: dns.TypePTR})
}

// transcript returns all answers in wire format from a Snapshot, in both profiles.
func transcript(t testing.TB, resolvers []*zone.Resolver, queries [][]byte, s *zone.Snapshot) []byte {
	t.Helper()
	var all []byte
	for _, resolver := range resolvers {
		resolver.Set(s)
		for _, query := range queries {
			all, _ = resolver.AppendResponse(all, query, dns.MaxMsgSize)
			all = append(all, '\n')
		}
	}
	return all
}

func transcribers(t testing.TB) (resolvers []*zone.Resolver, queries [][]byte) {
	t.Helper()
	for _, change := range []func(*zone.Config){zonal, podNames, openShift, ignoreEmpty, func(c *zone.Config) { verified(c); networks(c) }} {
		resolvers = append(resolvers, resolverOf(t, "", change))
	}
	for _, question := range questions() {
		query := packedQuery(t, question.Name, question.Qtype)
		query[0], query[1] = 0, 0
		queries = append(queries, query)
	}
	return resolvers, queries
}

// TestHistories: after any history, the next Snapshot gives the same answers as one built from the
// final objects, and earlier Snapshots give the same answers as before.
func TestHistories(t *testing.T) {
	if lab.RaceEnabled {
		t.Skip("computes in one goroutine; make test runs it without -race")
	}
	resolvers, queries := transcribers(t)
	for seed := range seeds {
		h := newHistory(seed)
		type past struct {
			snapshot *zone.Snapshot
			said     []byte
		}
		var pasts []past
		for range 6 {
			for range 1 + h.rand.IntN(12) {
				h.step()
			}
			s := h.builder.Snapshot(newest)
			said := transcript(t, resolvers, queries, s)
			scratch := h.fromScratch()
			if !bytes.Equal(said, transcript(t, resolvers, queries, scratch)) {
				t.Fatalf("seed %d: a Snapshot built from scratch gives other answers", seed)
			}
			if s.Counts() != scratch.Counts() {
				t.Fatalf("seed %d: counts %+v, from scratch %+v", seed, s.Counts(), scratch.Counts())
			}
			pasts = append(pasts, past{s, said})
		}
		for i, p := range pasts {
			if !bytes.Equal(p.said, transcript(t, resolvers, queries, p.snapshot)) {
				t.Fatalf("seed %d: Snapshot %d gives other answers than before", seed, i)
			}
		}
	}
}

// TestNothingBelowNothing: if a name exists, so do all names above it (RFC 8020). A cache with
// NXDOMAIN for one of them would answer NXDOMAIN for the name.
func TestNothingBelowNothing(t *testing.T) {
	resolvers, queries := transcribers(t)
	for seed := range seeds {
		h := newHistory(seed)
		for range 60 {
			h.step()
		}
		s := h.builder.Snapshot(newest)
		for i, resolver := range resolvers {
			resolver.Set(s)
			for _, query := range queries {
				checkAncestors(t, fmt.Sprintf("seed %d, resolver %d", seed, i), resolver, query)
			}
		}
	}
}

func checkAncestors(t *testing.T, what string, resolver *zone.Resolver, query []byte) {
	t.Helper()
	m := new(dns.Msg)
	if err := m.Unpack(query); err != nil {
		t.Fatal(err)
	}
	name, qtype := m.Question[0].Name, m.Question[0].Qtype
	if wire, ok := resolver.AppendResponse(nil, query, dns.MaxMsgSize); !ok || wire[3]&0xf != dns.RcodeSuccess {
		return
	}
	for i, end := dns.NextLabel(name, 0); !end && dns.IsSubDomain("cluster.local.", name[i:]); i, end = dns.NextLabel(name, i) {
		above := packedQuery(t, name[i:], dns.TypeTXT)
		if wire, ok := resolver.AppendResponse(nil, above, dns.MaxMsgSize); ok && wire[3]&0xf != dns.RcodeSuccess {
			t.Errorf("%s: %s %s exists, but %s does not", what, name, dns.Type(qtype), name[i:])
		}
	}
}

// TestIteration: a Snapshot yields the objects that it was given, and they give the same Snapshot
// again, as after loading from a file.
func TestIteration(t *testing.T) {
	for seed := range seeds {
		h := newHistory(seed)
		for range 60 {
			h.step()
		}
		s := h.builder.Snapshot(newest)
		services, slicesOf, pods := map[zone.Key]*zone.Service{}, map[zone.Key]*zone.Slice{}, map[zone.Key]*zone.Pod{}
		for service := range s.Services() {
			services[service.Key] = service
			if s.Service(service.Key) != service {
				t.Fatalf("seed %d: %v is not found by its key", seed, service.Key)
			}
		}
		for slice := range s.Slices() {
			kept := *slice
			kept.Endpoints = slices.Clone(slice.Endpoints)
			slicesOf[slice.Key] = &kept
		}
		for pod := range s.Pods() {
			pods[pod.Key] = pod
		}
		want := maps.Clone(h.slices)
		maps.DeleteFunc(want, func(_ zone.Key, s *zone.Slice) bool { return s.Service == "" })
		diff := cmp.Diff(h.services, services, addrsAsText) + cmp.Diff(want, slicesOf, addrsAsText, cmpopts.EquateEmpty()) +
			cmp.Diff(h.pods, pods, addrsAsText)
		if diff != "" {
			t.Fatalf("seed %d:\n%s", seed, diff)
		}
		for name := range s.Namespaces() {
			if !h.namespaces[name] {
				t.Errorf("seed %d: there is no namespace %s", seed, name)
			}
		}
	}
}

var addrsAsText = cmp.Transformer("text", netip.Addr.String)

func TestSearchNamespace(t *testing.T) {
	s := cluster(t, `
		pod a/x 10.0.0.1
		pod a/y 10.0.0.1 fd00::1
		pod b/x 10.0.0.2
		pod a/z 10.0.0.2
		pod c/x
		pod a/own search 10.0.0.4
		pod a/p 10.0.0.5
		pod a/other search 10.0.0.5`).Snapshot(newest)
	for addr, want := range map[string]string{
		"10.0.0.1": "a", "fd00::1": "a", "10.0.0.2": "", "10.0.0.3": "", "::ffff:10.0.0.1": "a", "10.0.0.4": "", "10.0.0.5": "",
	} {
		if got := s.SearchNamespace(netip.MustParseAddr(addr)); got != want {
			t.Errorf("%s: %q, want %q", addr, got, want)
		}
	}
}

// TestAddrsOf: a Pod is found by its name. A Pod without an address and an unknown Pod have none.
func TestAddrsOf(t *testing.T) {
	s := cluster(t, `
		pod a/x 10.0.0.1
		pod a/y 10.0.0.2 fd00::1
		pod b/x`).Snapshot(newest)
	for pod, want := range map[string]string{"a/x": "[10.0.0.1]", "a/y": "[10.0.0.2 fd00::1]", "b/x": "[]", "b/y": "[]", "x": "[]"} {
		if got := fmt.Sprint(s.AddrsOf(pod)); got != want {
			t.Errorf("%s: %s, want %s", pod, got, want)
		}
	}
}

// TestMemory limits the memory of a cluster: with what a node watches, and with every endpoint of
// 10,000 Services.
func TestMemory(t *testing.T) {
	for _, test := range []struct {
		headlessOnly bool
		limit        float64
	}{{true, 6}, {false, 15.5}} {
		got := heapOf(func() any {
			b := bigCluster(10_000, test.headlessOnly)
			return []any{b, b.Snapshot(newest)}
		})
		if got > test.limit {
			t.Errorf("headless only %t: %.1f MiB, want at most %.1f", test.headlessOnly, got, test.limit)
		}
	}
}
