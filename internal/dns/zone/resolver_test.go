package zone_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/zone"
	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// serveResolver runs a real server that answers names in the Resolver's zones from it, and all
// others from next.
func serveResolver(t *testing.T, resolver *zone.Resolver, next dnsserver.Handler) netip.AddrPort {
	t.Helper()
	return serve(t, within(resolver, next))
}

func check(t *testing.T, what, want string, got *dns.Msg) {
	t.Helper()
	if diff := dnstest.Diff(want, got); diff != "" {
		t.Errorf("%s:\n%s", what, diff)
	}
}

// TestBeforeTheFirstSnapshot: names in the cluster are SERVFAIL with the reason, and all others
// work as usual.
func TestBeforeTheFirstSnapshot(t *testing.T) {
	config := zone.Config{Domains: names("cluster.local"), Next: answerer(fromNext)}
	networks(&config)
	resolver := zone.NewResolver(config)
	addr := serveResolver(t, resolver, config.Next)
	const unready = ";; SERVFAIL\n;; ede 14\n;; flags rd ra"
	ask := func(name string) *dns.Msg { return dnstest.Exchange(t, addr, name, dns.TypeA, dnstest.DO()) }
	check(t, "name", unready, ask("web.shop.svc.cluster.local."))
	check(t, "apex", unready, ask("cluster.local."))
	check(t, "address of the cluster", unready, ask("1.0.30.172.in-addr.arpa."))
	check(t, "address", "1.2.0.192.in-addr.arpa. 5 A "+fromNext, ask("1.2.0.192.in-addr.arpa."))
	check(t, "elsewhere", "www.example.com. 5 A "+fromNext, ask("www.example.com."))
	if _, ok := resolver.AppendResponse(nil, packedQuery(t, "web.shop.svc.cluster.local.", dns.TypeA), 1232); ok {
		t.Error("got an answer in wire format")
	}

	resolver.Unready(errors.New("kubeconfig /etc/kubeconfig: no such file"))
	if got := edeText(ask("web.shop.svc.cluster.local.")); got != "kubeconfig /etc/kubeconfig: no such file" {
		t.Errorf("the reason is %q", got)
	}
	resolver.Set(cluster(t, shop).Snapshot(newest))
	check(t, "name after the first Snapshot", "web.shop.svc.cluster.local. 0 A 172.30.0.10", ask("web.shop.svc.cluster.local."))
}

func edeText(m *dns.Msg) string {
	for _, option := range m.IsEdns0().Option {
		if ede, ok := option.(*dns.EDNS0_EDE); ok {
			return ede.ExtraText
		}
	}
	return "none"
}

// TestStale: a Snapshot from an earlier run is used for answers, and marks them for clients that
// understand EDNS.
func TestStale(t *testing.T) {
	resolver := resolverOf(t, shop, func(c *zone.Config) { c.TTL = time.Hour })
	s := served{resolver, serveResolver(t, resolver, never(t))}
	fresh := resolver.Snapshot()
	resolver.Set(fresh.Stale())
	if !resolver.Snapshot().IsStale() || fresh.IsStale() {
		t.Error("Stale changes its receiver")
	}
	check(t, "answer", ";; ede 3\nweb.shop.svc.cluster.local. 30 A 172.30.0.10", s.ask(t, "web.shop.svc.cluster.local.", dns.TypeA))
	check(t, "NODATA", ";; ede 3\n"+nodata, s.ask(t, "web.shop.svc.cluster.local.", dns.TypeTXT))
	check(t, "NXDOMAIN", ";; ede 19\n"+absent, s.ask(t, "nothing.shop.svc.cluster.local.", dns.TypeA))
	check(t, "without EDNS", ";; ede\nweb.shop.svc.cluster.local. 30 A 172.30.0.10",
		dnstest.Exchange(t, s.addr, "web.shop.svc.cluster.local.", dns.TypeA))
	resolver.Set(fresh)
	check(t, "fresh again", ";; ede\nweb.shop.svc.cluster.local. 3600 A 172.30.0.10", s.ask(t, "web.shop.svc.cluster.local.", dns.TypeA))
}

// TestTargetsElsewhere: the rcode is that of the target. A failure is SERVFAIL at once.
func TestTargetsElsewhere(t *testing.T) {
	dead := &dnsserver.ExtendedError{Code: dns.ExtendedErrorCodeNoReachableAuthority, Text: "all upstreams are down"}
	for _, test := range []struct {
		name string
		next dnsserver.HandlerFunc
		want string
	}{
		{"addresses", answererFunc(fromNext), ";; flags aa rd ra\nmail.shop.svc.cluster.local. 5 CNAME mx.example.com.\nmx.example.com. 5 A " + fromNext},
		{"dead upstreams", func(context.Context, *dnsserver.Query) (*dns.Msg, error) { return nil, dead }, ";; SERVFAIL\n;; ede 22\n;; flags rd ra"},
		{"truncated", func(context.Context, *dnsserver.Query) (*dns.Msg, error) {
			return &dns.Msg{MsgHdr: dns.MsgHdr{Truncated: true}}, nil
		}, ";; flags aa tc rd ra\nmail.shop.svc.cluster.local. 5 CNAME mx.example.com."},
		{"REFUSED", func(context.Context, *dnsserver.Query) (*dns.Msg, error) {
			return &dns.Msg{MsgHdr: dns.MsgHdr{Rcode: dns.RcodeRefused}}, nil
		}, ";; REFUSED\n;; flags rd ra\nmail.shop.svc.cluster.local. 5 CNAME mx.example.com."},
	} {
		t.Run(test.name, func(t *testing.T) {
			resolver := resolverOf(t, shop, func(c *zone.Config) {
				c.Next = dnsserver.HandlerFunc(func(ctx context.Context, q *dnsserver.Query) (*dns.Msg, error) {
					asked := q.Msg.Question[0]
					if asked.Name != "mx.example.com." || asked.Qtype != dns.TypeA || q.Name.String() != asked.Name {
						t.Errorf("Next was asked for %v", asked)
					}
					if opt := q.Msg.IsEdns0(); opt == nil || !opt.Do() || !q.Msg.RecursionDesired || !q.Msg.CheckingDisabled {
						t.Errorf("Next was asked as %s", q.Msg)
					}
					return test.next(ctx, q)
				})
			})
			checking := func(m *dns.Msg) { m.CheckingDisabled = true }
			got := dnstest.Exchange(t, serveResolver(t, resolver, never(t)), "mail.shop.svc.cluster.local.", dns.TypeA, dnstest.DO(), checking)
			got.CheckingDisabled = false
			check(t, "answer", test.want, got)
		})
	}
}

func answererFunc(addr string) dnsserver.HandlerFunc {
	return func(ctx context.Context, q *dnsserver.Query) (*dns.Msg, error) {
		return answerer(addr).ServeDNS(ctx, q)
	}
}

// TestForeignReverseNames: Next gets unknown addresses outside the cluster's networks, and
// everywhere if the networks are unknown.
func TestForeignReverseNames(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*zone.Config)
		ask    []string
	}{
		{"networks are known", networks, []string{
			"1.2.0.192.in-addr.arpa.", "1.0.32.172.in-addr.arpa.", "172.in-addr.arpa.", "in-addr.arpa.", "x.in-addr.arpa.",
			"2.0.64.10.in-addr.arpa.", "0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.1.3.0.0.0.0.d.f.ip6.arpa.", "f.ip6.arpa.", "arpa.",
		}},
		{"networks are not known", nil, []string{"99.0.30.172.in-addr.arpa.", "0.30.172.in-addr.arpa.", "ip6.arpa.", "x.10.0.30.172.in-addr.arpa."}},
	} {
		t.Run(test.name, func(t *testing.T) {
			resolver := resolverOf(t, shop, func(c *zone.Config) {
				c.Next = answerer(fromNext)
				if test.change != nil {
					test.change(c)
				}
			})
			addr := serveResolver(t, resolver, answerer(fromNext))
			for _, name := range test.ask {
				check(t, name, name+" 5 A "+fromNext, dnstest.Exchange(t, addr, name, dns.TypeA))
				m, err := resolver.ServeDNS(t.Context(), query(t, name))
				check(t, name+" by the Resolver", name+" 5 A "+fromNext, m)
				if _, ok := resolver.AppendResponse(nil, packedQuery(t, name, dns.TypeA), 1232); ok || err != nil {
					t.Errorf("%s: answered in wire format, or %v", name, err)
				}
			}
		})
	}
}

// TestNetworksKnownInPart: known Pod networks say nothing about Services. An OpenShift 3 node knows
// only the Pod networks (proxyArguments.cluster-cidr), and the reverse names of ClusterIPs went to
// the upstream servers.
func TestNetworksKnownInPart(t *testing.T) {
	pods := func(c *zone.Config) { c.PodCIDRs = []netip.Prefix{netip.MustParsePrefix("10.4.0.0/16"), {}} }
	services := func(c *zone.Config) { c.ServiceCIDRs = []netip.Prefix{netip.MustParsePrefix("172.30.0.0/28")} }
	both := func(c *zone.Config) { pods(c); services(c) }
	const clusterIP, inPods, elsewhere = "11.0.30.172.in-addr.arpa.", "2.0.4.10.in-addr.arpa.", "1.0.7.10.in-addr.arpa."
	// A ClusterIP outside the Service network.
	far := "0.1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.3.0.0.0.0.d.f.ip6.arpa."
	for _, test := range []struct {
		name   string
		change func(*zone.Config)
		ask    string
		want   string // "" if Next answers
	}{
		{"ClusterIP", pods, clusterIP, "idle.shop.svc.cluster.local."},
		{"IPv6 ClusterIP", pods, far, "web.shop.svc.cluster.local."},
		{"endpoint in the pods' network", pods, inPods, "10-4-0-2.pair.shop.svc.cluster.local."},
		{"endpoint elsewhere", pods, elsewhere, ""},
		{"ClusterIP in the services' network", services, clusterIP, "idle.shop.svc.cluster.local."},
		{"ClusterIP elsewhere", services, far, ""},
		{"endpoint", services, elsewhere, "10-7-0-1.multi.shop.svc.cluster.local."},
		{"endpoint elsewhere, both known", both, elsewhere, ""},
		{"ClusterIP elsewhere, both known", both, far, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			resolver := resolverOf(t, shop, func(c *zone.Config) {
				c.Next = answerer(fromNext)
				test.change(c)
			})
			want := test.ask + " 5 PTR " + test.want
			if test.want == "" {
				want = test.ask + " 5 A " + fromNext
			}
			check(t, test.ask, want, dnstest.Exchange(t, serveResolver(t, resolver, answerer(fromNext)), test.ask, dns.TypePTR))
		})
	}
}

func TestApexes(t *testing.T) {
	for _, test := range []struct {
		service, pod []netip.Prefix
		want         string
	}{
		{nil, nil, "cluster.local. other.test. in-addr.arpa. ip6.arpa."},
		{
			[]netip.Prefix{netip.MustParsePrefix("172.31.0.5/15"), {}},
			[]netip.Prefix{netip.MustParsePrefix("10.2.0.0/16")},
			"cluster.local. other.test. 30.172.in-addr.arpa. 31.172.in-addr.arpa. 2.10.in-addr.arpa.",
		},
		{
			nil,
			[]netip.Prefix{netip.MustParsePrefix("10.2.0.0/16")},
			"cluster.local. other.test. 2.10.in-addr.arpa. in-addr.arpa. ip6.arpa.",
		},
	} {
		config := zone.Config{Domains: names("cluster.local", "other.test"), ServiceCIDRs: test.service, PodCIDRs: test.pod}
		var got []string
		for _, apex := range zone.NewResolver(config).Apexes() {
			got = append(got, apex.String())
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("got %v, want %s", got, test.want)
		}
	}
}

func TestClassChaos(t *testing.T) {
	resolver := resolverOf(t, shop, nil)
	q := query(t, "web.shop.svc.cluster.local")
	q.Msg.Question[0].Qclass = dns.ClassCHAOS
	m, err := resolver.ServeDNS(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	check(t, "answer", ";; REFUSED", m)
}

// TestPointersInOrder: the best name of an address comes first, even if Rotate picks another.
func TestPointersInOrder(t *testing.T) {
	const lines = `
		service  a/web 172.30.0.1
		slice    a/web-1 web 10.1.0.1 10.1.0.2=w 172.30.0.9
		headless a/zz
		slice    a/zz-1 zz 10.1.0.1=z 10.1.0.2
		service  b/web 172.30.0.9 http:80
		service  c/web 172.30.0.9 http:80`
	for profile, want := range map[zone.Profile][3]string{
		zone.Kubernetes: {
			"1.0.1.10.in-addr.arpa. 5 PTR z.zz.a.svc.cluster.local.\n1.0.1.10.in-addr.arpa. 5 PTR 10-1-0-1.web.a.svc.cluster.local.",
			"2.0.1.10.in-addr.arpa. 5 PTR w.web.a.svc.cluster.local.\n2.0.1.10.in-addr.arpa. 5 PTR 10-1-0-2.zz.a.svc.cluster.local.",
			"9.0.30.172.in-addr.arpa. 5 PTR web.b.svc.cluster.local.\n9.0.30.172.in-addr.arpa. 5 PTR web.c.svc.cluster.local.",
		},
		zone.OpenShift: {
			"1.0.1.10.in-addr.arpa. 30 PTR z.zz.a.svc.cluster.local.",
			"2.0.1.10.in-addr.arpa. 30 PTR w.web.a.svc.cluster.local.",
			"9.0.30.172.in-addr.arpa. 30 PTR web.b.svc.cluster.local.",
		},
	} {
		resolver := resolverOf(t, lines, func(c *zone.Config) {
			c.Profile = profile
			c.Rotate = func(n int) int { return n - 1 }
		})
		addr := serveResolver(t, resolver, never(t))
		for i, name := range []string{"1.0.1.10.in-addr.arpa.", "2.0.1.10.in-addr.arpa.", "9.0.30.172.in-addr.arpa."} {
			check(t, name, ";; ordered\n"+want[i], dnstest.Exchange(t, addr, name, dns.TypePTR))
		}
	}
}

// TestRotation: each record is first equally often; the others follow in the order of the slices.
func TestRotation(t *testing.T) {
	var first atomic.Int64
	resolver := resolverOf(t, "headless shop/db\nslice shop/db-1 db sql:1 10.0.0.1 10.0.0.2 10.0.0.3", func(c *zone.Config) {
		c.Rotate = func(n int) int {
			if n != 3 {
				t.Errorf("rotating %d records", n)
			}
			return int(first.Load())
		}
	})
	addr := serveResolver(t, resolver, never(t))
	for rotation := range 3 {
		first.Store(int64(rotation))
		var want strings.Builder
		want.WriteString(";; ordered\n")
		for i := range 3 {
			fmt.Fprintf(&want, "db.shop.svc.cluster.local. 5 A 10.0.0.%d\n", 1+(rotation+i)%3)
		}
		check(t, "A", want.String(), dnstest.Exchange(t, addr, "db.shop.svc.cluster.local.", dns.TypeA))
	}
	seen := map[string]bool{}
	random := resolverOf(t, "headless shop/db\nslice shop/db-1 db sql:1 10.0.0.1 10.0.0.2 10.0.0.3", func(c *zone.Config) { c.Rotate = nil })
	for range 1000 {
		m, err := random.ServeDNS(t.Context(), query(t, "db.shop.svc.cluster.local"))
		if err != nil {
			t.Fatal(err)
		}
		seen[m.Answer[0].(*dns.A).A.String()] = true
	}
	if len(seen) != 3 {
		t.Errorf("without Rotate, the first records of 1000 answers are %v", seen)
	}
}

// TestLargeAnswers queries a name with a thousand endpoints. UDP gives as many as fit, with TC; TCP
// gives all. More SRV records fit because their targets are compressed then.
func TestLargeAnswers(t *testing.T) {
	b := new(zone.Builder)
	wideService(b, 1000, true)
	resolver := resolverOf(t, "", nil)
	resolver.Set(b.Snapshot(newest))
	addr := serveResolver(t, resolver, never(t))
	const name, portName = "wide.team-000.svc.cluster.local.", "_http._tcp.wide.team-000.svc.cluster.local."
	count := func(m *dns.Msg) int {
		different := map[string]bool{}
		for _, rr := range m.Answer {
			different[rr.String()] = true
		}
		return len(different)
	}
	for _, test := range []struct {
		ask     string
		qtype   uint16
		options []dnstest.Option
		tc      bool
		want    int // records
	}{
		{name, dns.TypeA, nil, true, (512 - 12 - len(name) - 5) / 16},
		{name, dns.TypeA, []dnstest.Option{dnstest.EDNS(1000)}, true, (1000 - 12 - len(name) - 5 - 11) / 16},
		{name, dns.TypeA, []dnstest.Option{dnstest.EDNS(4096)}, true, (1232 - 12 - len(name) - 5 - 11) / 16},
		{name, dns.TypeAAAA, nil, false, 0},
	} {
		m := dnstest.Exchange(t, addr, test.ask, test.qtype, test.options...)
		if m.Truncated != test.tc || count(m) != test.want || len(m.Answer) != test.want {
			t.Errorf("%s %s over UDP: %d records, TC %t", test.ask, dns.Type(test.qtype), count(m), m.Truncated)
		}
		query := new(dns.Msg).SetQuestion(test.ask, test.qtype)
		limit := 512
		for _, option := range test.options {
			option(query)
			limit = min(int(query.IsEdns0().UDPSize()), 1232)
		}
		if got := respond(t, resolver, query, limit); sections(got) != sections(m) {
			t.Errorf("%s %s in wire format: %d records, TC %t", test.ask, dns.Type(test.qtype), count(got), got.Truncated)
		}
	}
	if m := dnstest.ExchangeTCP(t, addr, name, dns.TypeA); m.Truncated || count(m) != 1000 {
		t.Errorf("over TCP: %d records, TC %t", count(m), m.Truncated)
	}
	m := respond(t, resolver, new(dns.Msg).SetQuestion(portName, dns.TypeSRV), dns.MaxMsgSize)
	if m.Truncated || count(m) != 1000 || len(m.Extra) > 0 {
		t.Errorf("1000 SRV records: %d, TC %t, %d addresses", count(m), m.Truncated, len(m.Extra))
	}
	wideService(b, 1050, false)
	resolver.Set(b.Snapshot(newest))
	for _, limit := range []int{dns.MaxMsgSize, dns.MaxMsgSize - 28} { // without and with a cookie in the response
		m = respond(t, resolver, new(dns.Msg).SetQuestion(portName, dns.TypeSRV), limit)
		if m.Truncated || count(m) != 1050 {
			t.Errorf("1050 SRV records in %d bytes: %d, TC %t", limit, count(m), m.Truncated)
		}
		checkHosts(t, m)
	}
	wideService(b, 5000, false)
	resolver.Set(b.Snapshot(newest))
	m = respond(t, resolver, new(dns.Msg).SetQuestion(name, dns.TypeA), dns.MaxMsgSize)
	if want := (dns.MaxMsgSize - 12 - len(name) - 5) / 16; !m.Truncated || count(m) != want {
		t.Errorf("5000 endpoints over TCP: %d records, TC %t, want %d", count(m), m.Truncated, want)
	}
}

// checkHosts checks that each SRV record of wideService without hostnames has its address in the
// additional section.
func checkHosts(t *testing.T, m *dns.Msg) {
	t.Helper()
	addrs := map[string]string{}
	for _, rr := range m.Extra {
		addrs[rr.Header().Name] = rr.(*dns.A).A.String()
	}
	for _, rr := range m.Answer {
		target := rr.(*dns.SRV).Target
		host, _, _ := strings.Cut(target, ".")
		if addr := addrs[target]; strings.ReplaceAll(addr, ".", "-") != host {
			t.Fatalf("the address of %s is %q", target, addr)
		}
	}
}

// TestSlicesInOrder: records are in the order of the slices and of their endpoints, even after a
// duplicate address.
func TestSlicesInOrder(t *testing.T) {
	b := cluster(t, "headless a/x\nslice a/x-1 x 10.0.0.3 10.0.0.1\nslice a/x-2 x 10.0.0.3 10.0.0.2")
	resolver := resolverOf(t, "", nil)
	addr := serveResolver(t, resolver, never(t))
	ask := func() *dns.Msg { return dnstest.Exchange(t, addr, "x.a.svc.cluster.local.", dns.TypeA) }
	resolver.Set(b.Snapshot(newest))
	check(t, "twice", "x.a.svc.cluster.local. 5 A 10.0.0.1\nx.a.svc.cluster.local. 5 A 10.0.0.2\nx.a.svc.cluster.local. 5 A 10.0.0.3", ask())
	b.DeleteSlice(zone.Key{Namespace: "a", Name: "x-2"})
	resolver.Set(b.Snapshot(newest))
	check(t, "once", ";; ordered\nx.a.svc.cluster.local. 5 A 10.0.0.3\nx.a.svc.cluster.local. 5 A 10.0.0.1", ask())
}

// respond answers in wire format, within the limit.
func respond(t testing.TB, resolver *zone.Resolver, query *dns.Msg, limit int) *dns.Msg {
	t.Helper()
	packed, err := query.Pack()
	if err != nil {
		t.Fatal(err)
	}
	const before = "before"
	wire, ok := resolver.AppendResponse([]byte(before), packed, limit)
	if !ok || string(wire[:len(before)]) != before {
		t.Fatalf("%s is not answered in wire format", query.Question[0].Name)
	}
	if wire = wire[len(before):]; len(wire) > limit {
		t.Errorf("got %d octets, want at most %d", len(wire), limit)
	}
	m := new(dns.Msg)
	if err := m.Unpack(wire); err != nil {
		t.Fatal(err)
	}
	return m
}

// TestAppendResponseLeaves: queries that the server must refuse, and queries that need more than
// the Snapshot, are left to ServeDNS.
func TestAppendResponseLeaves(t *testing.T) {
	resolver := resolverOf(t, shop, nil)
	good := packedQuery(t, "web.shop.svc.cluster.local.", dns.TypeA)
	change := func(i int, octets ...byte) []byte {
		changed := slices.Clone(good)
		copy(changed[i:], octets)
		return changed
	}
	end := len(good) - 11 // end of the question
	for name, query := range map[string][]byte{
		"nothing":                      nil,
		"header alone":                 good[:12],
		"question cut short":           good[:end-1],
		"name cut short":               good[:20],
		"OPT missing":                  good[:end],
		"OPT cut short":                good[:len(good)-1],
		"octet after the OPT":          append(slices.Clone(good), 0),
		"response":                     change(2, 0x80),
		"NOTIFY":                       change(2, 4<<3),
		"TC":                           change(2, 2),
		"two questions":                change(4, 0, 2),
		"no question":                  change(4, 0, 0),
		"answer":                       change(6, 0, 1),
		"authority":                    change(8, 0, 1),
		"two additional":               change(10, 0, 2),
		"class CHAOS":                  change(end-2, 0, 3),
		"type 0":                       change(end-4, 0, 0),
		"OPT as type":                  change(end-4, 0, 41),
		"AXFR":                         change(end-4, 0, 252),
		"compressed name":              change(12, 0xc0, 12),
		"long label":                   change(12, 64),
		"EDNS version 1":               change(end+6, 1),
		"OPT of another name":          change(end, 1),
		"record that is not OPT":       change(end+1, 0, 1),
		"CNAME":                        packedQuery(t, "alias.shop.svc.cluster.local.", dns.TypeA),
		"another domain":               packedQuery(t, "www.example.com.", dns.TypeA),
		"address outside the networks": packedQuery(t, "1.2.0.192.in-addr.arpa.", dns.TypePTR),
		"cluster domain in the middle": packedQuery(t, "x.cluster.local.example.", dns.TypeA),
	} {
		got, ok := resolver.AppendResponse([]byte("before"), query, 1232)
		if ok || string(got) != "before" {
			t.Errorf("%s: answered with %x", name, got)
		}
	}
	if _, ok := resolver.AppendResponse(nil, good, 511); ok {
		t.Error("answered with a limit below 512 octets")
	}
	if _, ok := resolver.AppendResponse(nil, good, 512); !ok {
		t.Error("the valid query is not answered")
	}
}

// TestAppendResponseEchoes: ID, RD, CD, DO and letter case come from the query, RA and AA from us.
func TestAppendResponseEchoes(t *testing.T) {
	resolver := resolverOf(t, shop, nil)
	for _, flags := range []string{"", "rd", "cd", "rd do", "edns"} {
		query := new(dns.Msg).SetQuestion("WeB.sHoP.svc.CLUSTER.local.", dns.TypeA)
		query.RecursionDesired, query.CheckingDisabled = strings.Contains(flags, "rd"), strings.Contains(flags, "cd")
		if strings.Contains(flags, "do") || flags == "edns" {
			query.SetEdns0(1232, flags != "edns")
		}
		m := respond(t, resolver, query, 1232)
		if m.Id != query.Id || m.Question[0] != query.Question[0] || m.Answer[0].Header().Name != query.Question[0].Name ||
			m.RecursionDesired != query.RecursionDesired || m.CheckingDisabled != query.CheckingDisabled ||
			!m.RecursionAvailable || !m.Authoritative || !m.Response || m.AuthenticatedData || m.Zero {
			t.Errorf("%s: %s", flags, m)
		}
		asked, got := query.IsEdns0(), m.IsEdns0()
		if (asked == nil) != (got == nil) || asked != nil && (asked.Do() != got.Do() || got.UDPSize() != 1232) {
			t.Errorf("%s: OPT %v for %v", flags, got, asked)
		}
	}
}

// TestAppendResponseAllocates: AppendResponse does not allocate.
func TestAppendResponseAllocates(t *testing.T) {
	if lab.RaceEnabled {
		t.Skip("with the race detector, sync.Pool drops some items")
	}
	resolvers := map[zone.Profile]*zone.Resolver{}
	for _, bench := range benchmarks {
		if resolvers[bench.profile] == nil {
			resolvers[bench.profile] = bigResolver(t, zone.Config{Profile: bench.profile, TTL: -1, NegativeTTL: -1})
		}
		packed := packedQuery(t, bench.ask, bench.qtype)
		buf := make([]byte, 0, dns.MaxMsgSize+dns.MinMsgSize)
		if n := testing.AllocsPerRun(100, func() { resolvers[bench.profile].AppendResponse(buf, packed, bench.limit) }); n >= 1 {
			t.Errorf("%s: got %v allocations, want 0", bench.name, n)
		}
	}
}
