package zone

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
)

func pointersTo(t *testing.T, b *Builder, addr string) (names []string) {
	t.Helper()
	r := NewResolver(Config{Domains: []dnsname.Name{dnsname.MustParse("cluster.local")}})
	r.Set(b.Snapshot(time.Unix(1, 0)))
	reverse, err := dns.ReverseAddr(addr)
	if err != nil {
		t.Fatal(err)
	}
	query, err := new(dns.Msg).SetQuestion(reverse, dns.TypePTR).Pack()
	if err != nil {
		t.Fatal(err)
	}
	wire, ok := r.AppendResponse(nil, query, dns.MaxMsgSize)
	var m dns.Msg
	if err := m.Unpack(wire); !ok || err != nil {
		t.Fatal(ok, err)
	}
	for _, rr := range m.Answer {
		names = append(names, rr.(*dns.PTR).Ptr)
	}
	return names
}

// TestPointersAreBounded: a user who may write slices may repeat an address in them. A PTR question
// took 2.7 s with one slice of 1,000 endpoints, and minutes with four.
func TestPointersAreBounded(t *testing.T) {
	const addr = "10.1.2.3"
	for _, row := range []struct {
		services, slices, endpoints int
		want                        int
	}{
		{1, 1, 1, 1},
		{1, 4, 20_000, maxOfOne},
		{400, 1, 200, maxPointers},
	} {
		var b Builder
		for i := range row.services {
			key := Key{"n", fmt.Sprintf("s%d", i)}
			b.SetService(&Service{Key: key, ClusterIPs: []netip.Addr{netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)})}})
			for k := range row.slices {
				s := &Slice{Key: Key{"n", fmt.Sprintf("s%d-%d", i, k)}, Service: key.Name}
				for e := range row.endpoints {
					s.Endpoints = append(s.Endpoints, Endpoint{Addr: netip.MustParseAddr(addr), Hostname: fmt.Sprintf("h-%d-%d", k, e), Ready: true})
				}
				b.SetSlice(s)
			}
		}
		if got := pointersTo(t, &b, addr); len(got) != row.want {
			t.Errorf("%+v: got %d names", row, len(got))
		}
		// The name of a Service is not hidden by endpoints with its ClusterIP.
		b.SetService(&Service{Key: Key{"n", "web"}, ClusterIPs: []netip.Addr{netip.MustParseAddr(addr)}})
		if got := pointersTo(t, &b, addr); !slices.Equal(got, []string{"web.n.svc.cluster.local."}) {
			t.Errorf("%+v: got %d names for a ClusterIP", row, len(got))
		}
	}
}

// TestPointersAreSorted: names of the same rank are sorted by name, regardless of the order of
// their Services.
func TestPointersAreSorted(t *testing.T) {
	var b Builder
	for _, name := range []string{"gone", "c", "a", "b"} {
		b.SetService(&Service{Key: Key{"n", name}})
		b.SetSlice(&Slice{Key: Key{"n", name + "-1"}, Service: name, Endpoints: []Endpoint{{Addr: netip.MustParseAddr("10.1.2.3"), Hostname: "h", Ready: true}}})
		if name == "c" { // b gets a number that is lower than a's
			b.DeleteSlice(Key{"n", "gone-1"})
			b.DeleteService(Key{"n", "gone"})
		}
	}
	want := []string{"h.a.n.svc.cluster.local.", "h.b.n.svc.cluster.local.", "h.c.n.svc.cluster.local."}
	if got := pointersTo(t, &b, "10.1.2.3"); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestNumbersAreTakenBack: deleted objects release their numbers.
func TestNumbersAreTakenBack(t *testing.T) {
	var b Builder
	for i := range 1000 {
		key := Key{"n", fmt.Sprintf("x%d", i)}
		addr := []netip.Addr{netip.MustParseAddr("10.1.2.3")}
		b.SetService(&Service{Key: key, ClusterIPs: addr})
		b.SetPod(&Pod{Key: key, Addrs: addr})
		b.DeleteService(key)
		b.DeleteService(key) // already deleted
		b.DeletePod(key)
	}
	if b.addrs.keys.next > 1 || b.podAddrs.keys.next > 1 {
		t.Errorf("%d numbers in use for Services, %d for Pods", b.addrs.keys.next, b.podAddrs.keys.next)
	}
}

// TestPodOfAnotherAddress: a reference only means that a Pod may have the address.
func TestPodOfAnotherAddress(t *testing.T) {
	var b Builder
	b.SetPod(&Pod{Key: Key{"n", "p"}, Addrs: []netip.Addr{netip.MustParseAddr("10.1.2.3")}})
	other := netip.MustParseAddr("10.9.9.9")
	b.podAddrs.add(other, 1) // as with a hash collision
	s := b.Snapshot(time.Unix(1, 0))
	if s.PodAt(other) != "" || s.SearchNamespace(other) != "" || s.hasPod(other, []byte("n")) || s.PodAt(netip.MustParseAddr("10.1.2.3")) != "n/p" {
		t.Errorf("%q, %q", s.PodAt(other), s.SearchNamespace(other))
	}
	if s.IsPod(other, "", "") {
		t.Error("IsPod reports the wrong address")
	}
}

// TestIsPod: a filter looks up a Pod for each answered query, without allocating.
func TestIsPod(t *testing.T) {
	var b Builder
	at := netip.MustParseAddr("10.1.2.3")
	b.SetPod(&Pod{Key: Key{"n", "p"}, Addrs: []netip.Addr{at}})
	s := b.Snapshot(time.Unix(1, 0))
	for _, test := range []struct {
		name, namespace, pod string
		want                 bool
	}{
		{"same Pod", "n", "p", true},
		{"same namespace", "n", "", true},
		{"same name", "", "p", true},
		{"any Pod", "", "", true},
		{"another name", "n", "q", false},
		{"another namespace", "m", "p", false},
	} {
		if got := s.IsPod(at, test.namespace, test.pod); got != test.want {
			t.Errorf("%s: %t", test.name, got)
		}
	}
	if n := testing.AllocsPerRun(100, func() { s.IsPod(at, "n", "p") }); n > 0 {
		t.Errorf("got %v allocations, want 0", n)
	}
}
