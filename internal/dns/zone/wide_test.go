package zone

import (
	"context"
	"fmt"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// newWide returns a Resolver with a headless Service "wide" and an ExternalName "alias" for it.
// Each slice has the ports and the endpoints.
func newWide(slices, ports, endpoints int) *Resolver {
	var b Builder
	b.SetService(&Service{Key: Key{"n", "wide"}, Kind: Headless})
	b.SetService(&Service{Key: Key{"n", "alias"}, Kind: ExternalName, ExternalName: "wide.n.svc.cluster.local", Ports: []Port{{Name: "p0", Number: 1}}})
	for i := range slices {
		s := &Slice{Key: Key{"n", fmt.Sprintf("wide-%d", i)}, Service: "wide"}
		for k := range ports {
			s.Ports = append(s.Ports, Port{Name: fmt.Sprintf("p%d", k), Number: uint16(k + 1)})
		}
		for k := range endpoints {
			s.Endpoints = append(s.Endpoints, Endpoint{Addr: netip.AddrFrom4([4]byte{10, byte(i), byte(k >> 8), byte(k)}), Hostname: fmt.Sprintf("h-%d-%d", i, k), Ready: true})
		}
		b.SetSlice(s)
	}
	r := NewResolver(Config{Domains: []dnsname.Name{dnsname.MustParse("cluster.local")}, TTL: -1, NegativeTTL: -1})
	r.Set(b.Snapshot(time.Unix(1, 0)))
	return r
}

// TestWideServices: one query for the SRV records of a headless Service with 4,096 ports and 1,000
// endpoints took 15 s and 2.7 GB. With 262,144 endpoints, one for their addresses took 100 MB.
func TestWideServices(t *testing.T) {
	if lab.RaceEnabled {
		t.Skip("computes in one goroutine; make test runs it without -race")
	}
	for _, row := range []struct {
		name                     string
		qtype                    uint16
		slices, ports, endpoints int
	}{
		{"wide", dns.TypeSRV, 1, 4096, 250},
		{"wide", dns.TypeA, 4, 1, 1 << 16},
		{"_p0._tcp.alias", dns.TypeSRV, 4, 1, 1 << 16},
	} {
		r := newWide(row.slices, row.ports, row.endpoints)
		query, _ := new(dns.Msg).SetQuestion(row.name+".n.svc.cluster.local.", row.qtype).Pack()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		response, ok := r.AppendResponse(nil, query, 1232)
		runtime.ReadMemStats(&after)
		m := new(dns.Msg)
		if err := m.Unpack(response); !ok || err != nil || len(m.Answer) == 0 {
			t.Errorf("%+v: %v, %d records, %v", row, ok, len(m.Answer), err)
		}
		if n := (after.TotalAlloc - before.TotalAlloc) >> 20; n > 20 {
			t.Errorf("%+v: %d MiB were allocated", row, n)
		}
	}
}

// TestWideOverUDP: over UDP an answer is not unpacked to be cut. The 4,095 addresses behind an
// ExternalName took 0.8 MB for each query.
func TestWideOverUDP(t *testing.T) {
	r := newWide(1, 1, 5000)
	for _, row := range []struct {
		proto dnsserver.Proto
		most  int
	}{{dnsserver.UDP, 4096}, {dnsserver.TCP, dns.MaxMsgSize}} {
		for _, name := range []string{"wide", "alias"} {
			q := &dnsserver.Query{Msg: new(dns.Msg).SetQuestion(name+".n.svc.cluster.local.", dns.TypeA), Proto: row.proto}
			q.Name = dnsname.MustParse(q.Msg.Question[0].Name)
			m, err := r.ServeDNS(context.Background(), q)
			if err != nil || !m.Truncated || len(m.Answer) < row.most/20 || len(m.Answer) > row.most/16 {
				t.Errorf("%s over %s: %d records, %v", name, row.proto, len(m.Answer), err)
			}
		}
	}
}

// TestPortsWithoutRecords: an endpoint of 4,096 ports without a number was visited as cheaply as
// one without ports, so one query took seconds.
func TestPortsWithoutRecords(t *testing.T) {
	for _, name := range []string{"wide", "_p4095._tcp.wide"} {
		for endpoints, want := range map[int]int{10: 1, 1000: 0} {
			var b Builder
			b.SetService(&Service{Key: Key{"n", "wide"}, Kind: Headless})
			many := &Slice{Key: Key{"n", "wide-0"}, Service: "wide"}
			for k := range 4096 {
				many.Ports = append(many.Ports, Port{Name: fmt.Sprintf("p%d", k)})
			}
			for k := range endpoints {
				many.Endpoints = append(many.Endpoints, Endpoint{Addr: netip.AddrFrom4([4]byte{10, 0, byte(k >> 8), byte(k)}), Ready: true})
			}
			b.SetSlice(many)
			b.SetSlice(&Slice{
				Key: Key{"n", "wide-1"}, Service: "wide", Ports: []Port{{Name: "p4095", Number: 1}},
				Endpoints: []Endpoint{{Addr: netip.MustParseAddr("10.1.0.1"), Ready: true}},
			})
			r := NewResolver(Config{Domains: []dnsname.Name{dnsname.MustParse("cluster.local")}, TTL: -1, NegativeTTL: -1})
			r.Set(b.Snapshot(time.Unix(1, 0)))
			query, _ := new(dns.Msg).SetQuestion(name+".n.svc.cluster.local.", dns.TypeSRV).Pack()
			response, ok := r.AppendResponse(nil, query, 1232)
			m := new(dns.Msg)
			if err := m.Unpack(response); !ok || err != nil || len(m.Answer) != want {
				t.Errorf("%s with %d endpoints: %v, %d records, want %d, %v", name, endpoints, ok, len(m.Answer), want, err)
			}
		}
	}
}

// TestManySlices: twice the EndpointSlices of one Service cost twice the memory traffic. Each used
// to copy the list of all others: 20,000 took 7 s at a start.
func TestManySlices(t *testing.T) {
	allocated := func(slices int) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		newWide(slices, 1, 1)
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	one, twice := allocated(5000), allocated(10_000)
	t.Logf("%d bytes for 5,000 slices, %d for 10,000", one, twice)
	if twice > 3*one {
		t.Errorf("%d bytes for 10,000 slices, %d for 5,000", twice, one)
	}
}
