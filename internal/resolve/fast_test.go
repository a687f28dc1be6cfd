package resolve

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/dnswire"
	"github.com/node-dns/node-dns/internal/dns/forward"
	"github.com/node-dns/node-dns/internal/dns/zone"
	"github.com/node-dns/node-dns/internal/policy"
	"github.com/node-dns/node-dns/internal/sys/journal"
	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/internal/test/lab"
	"github.com/node-dns/node-dns/internal/test/policytest"
)

// master is a configuration with many features that affect answers.
const master = `
nodeName: node-7
serviceCIDRs: [172.30.0.0/16, "fd00:10::/112"]
podCIDRs: [10.128.0.0/14]
clusterListen: ["192.0.2.10:8053"]
cacheSize: 0
`

// bazaar returns a cluster with one of everything: answers of all sizes, and answers that need data
// that is not known.
func bazaar() *zone.Snapshot {
	b := new(zone.Builder)
	key := func(name string) zone.Key { return zone.Key{Namespace: "shop", Name: name} }
	addr := netip.MustParseAddr
	ports := []zone.Port{{Name: "http", Number: 80}, {Name: "dns", Number: 53, Protocol: zone.UDP}}
	for _, name := range []string{"shop", "default", "void"} {
		b.SetNamespace(name)
	}
	b.SetService(&zone.Service{Key: zone.Key{Namespace: "default", Name: "kubernetes"}, ClusterIPs: []netip.Addr{addr("172.30.0.1")}, Ports: ports[:1]})
	b.SetService(&zone.Service{Key: key("web"), ClusterIPs: []netip.Addr{addr("172.30.0.9")}, Ports: ports})
	b.SetService(&zone.Service{Key: key("dual"), ClusterIPs: []netip.Addr{addr("172.30.0.10"), addr("fd00:10::10")}, Ports: ports})
	b.SetService(&zone.Service{Key: key("site"), Kind: zone.ExternalName, ExternalName: "www.example.com"})
	b.SetService(&zone.Service{Key: key("here"), Kind: zone.ExternalName, ExternalName: "web.shop.svc.cluster.local"})
	for name, n := range map[string]int{"db": 3, "wide": 300} {
		b.SetService(&zone.Service{Key: key(name), Kind: zone.Headless, Ports: ports})
		s := &zone.Slice{Key: key(name + "-1"), Service: name, Ports: ports}
		for i := range n {
			e := zone.Endpoint{Addr: netip.AddrFrom4([4]byte{10, 130, byte(n), byte(i)}), Ready: true}
			if name == "db" {
				e.Hostname = fmt.Sprintf("db-%d", i)
			}
			s.Endpoints = append(s.Endpoints, e)
		}
		b.SetSlice(s)
	}
	b.SetService(&zone.Service{Key: key("agent"), Kind: zone.Headless}) // its pods have the addresses of their nodes
	b.SetSlice(&zone.Slice{Key: key("agent-1"), Service: "agent", Endpoints: []zone.Endpoint{{Addr: addr("192.0.2.10"), Ready: true}}})
	b.SetPod(&zone.Pod{Key: key("shell"), Addrs: []netip.Addr{addr("10.128.0.41")}})
	return b.Snapshot(time.Unix(1500000000, 0))
}

// still returns a Resolver with a fixed Policy and no upstream. Answers begin with their first
// record.
func still(t testing.TB, nodeDNS string, snapshot *zone.Snapshot) *Resolver {
	t.Helper()
	return stillWith(t, nodeDNS, "", snapshot)
}

// stillWith is like still, with a dnsmasq.conf.
func stillWith(t testing.TB, nodeDNS, dnsmasq string, snapshot *zone.Snapshot) *Resolver {
	t.Helper()
	return stillOn(t, 0, nodeDNS, dnsmasq, snapshot)
}

// stillOn is like stillWith, with the given number of lanes to the upstreams.
func stillOn(t testing.TB, lanes int, nodeDNS, dnsmasq string, snapshot *zone.Snapshot) *Resolver {
	t.Helper()
	r := New(config(lanes), policyOf(t, nodeDNS, dnsmasq))
	t.Cleanup(r.Close)
	if snapshot != nil {
		r.Publish(r.Policy().API.Kubeconfig, snapshot)
	}
	return r
}

func config(lanes int) Config {
	return Config{
		Version: "1.0", Log: slog.New(slog.DiscardHandler), Panics: new(journal.Panics),
		Forward:  forward.Config{Lanes: lanes},
		Numbers:  func(name string) ([]string, bool) { return []string{"77"}, name == "cachesize.bind." },
		NoSearch: func(p *policy.Policy) string { return map[bool]string{false: "off"}[p.API.Features.NodePods] },
		Rotate:   func(int) int { return 0 },
	}
}

func policyOf(t testing.TB, nodeDNS, dnsmasq string) *policy.Policy {
	t.Helper()
	return policy.New(policy.Inputs{
		Config: policytest.Config(t, nodeDNS, ""), Dnsmasq: policytest.Dnsmasq(t, dnsmasq), Net: policytest.Node(), Kubeconfig: "/etc/node-dns/kubeconfig",
	})
}

// asWireQuery returns a message in the form that dnsserver passes to Fast.
func asWireQuery(t testing.TB, msg []byte, client, local string) dnsserver.WireQuery {
	t.Helper()
	m := new(dns.Msg)
	if err := m.Unpack(msg); err != nil {
		t.Fatal(err)
	}
	_, end, err := dns.UnpackDomainName(msg, dnswire.HeaderSize)
	if err != nil {
		t.Fatal(err)
	}
	opt := m.IsEdns0()
	return dnsserver.WireQuery{
		Msg: msg, Limit: dns.MinMsgSize, Proto: dnsserver.UDP, End: end + 4, EDNS: opt != nil, DO: opt != nil && opt.Do(),
		Client: netip.AddrPortFrom(netip.MustParseAddr(client), 4242), Local: netip.MustParseAddrPort(local),
	}
}

func wireQuery(t testing.TB, name string, qtype uint16, changes ...func(*dns.Msg)) []byte {
	t.Helper()
	m := new(dns.Msg).SetQuestion(name, qtype)
	for _, change := range changes {
		change(m)
	}
	wire, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return wire
}

// TestServeWire checks which queries the fast path answers, and which it leaves because another
// handler affects or could affect the answer.
func TestServeWire(t *testing.T) {
	const pod, other = "10.128.0.41", "10.128.0.42"
	const web = "web.shop.svc.cluster.local."
	tests := []struct {
		name     string
		config   string // replaces master
		snapshot *zone.Snapshot
		client   string // "" means other
		local    string // "" means 192.0.2.10:53
		ask      string
		qtype    uint16
		wire     bool
	}{
		{name: "Service", ask: web, wire: true},
		{name: "Service in mixed case", ask: "WEB.shop.SVC.cluster.local.", wire: true},
		{name: "SRV of a Service", ask: "_http._tcp." + web, qtype: dns.TypeSRV, wire: true},
		{name: "PTR of a Service", ask: "9.0.30.172.in-addr.arpa.", qtype: dns.TypePTR, wire: true},
		{name: "missing Service", ask: "nowhere.shop.svc.cluster.local.", wire: true},
		{name: "missing address family", ask: web, qtype: dns.TypeAAAA, wire: true},
		{name: "unknown address in a cluster network", ask: "77.0.31.172.in-addr.arpa.", qtype: dns.TypePTR},
		{name: "name outside the cluster", ask: "www.example.com."},
		{name: "localhost", ask: "localhost."},
		{name: "name without a dot", ask: "printer."},
		{name: "onion name", ask: "x.onion."},
		{name: "ExternalName outside the cluster", ask: "site.shop.svc.cluster.local."},
		{name: "ExternalName of a Service", ask: "here.shop.svc.cluster.local."},
		{name: "missing endpoint", ask: "10-130-3-1." + web, wire: true},
		// The site's reverse zone has the node's name, and not only the name of a service whose pod
		// uses the node's network.
		{name: "PTR of an endpoint outside the cluster networks", ask: "10.2.0.192.in-addr.arpa.", qtype: dns.TypePTR},

		{name: "local pod, Service", client: pod, ask: web, wire: true},
		{name: "local pod, other address family", client: pod, ask: web, qtype: dns.TypeAAAA, wire: true},
		{name: "local pod, search list continues", client: pod, ask: "www.example.com.shop.svc.cluster.local."},
		{name: "local pod, search list continues, IPv4-mapped", client: "::ffff:" + pod, ask: "www.example.com.shop.svc.cluster.local."},
		{name: "local pod, search list ends at a name without address", client: pod, ask: "shop.svc.cluster.local.", wire: true},
		{name: "local pod, autopath off", config: "autopath: false\n", client: pod, ask: "www.example.com.shop.svc.cluster.local.", wire: true},

		{name: "remote pod at clusterListen", client: other, local: "192.0.2.10:8053", ask: web, wire: true},
		{name: "this host at clusterListen", client: "192.0.2.10", local: "192.0.2.10:8053", ask: web, wire: true},

		{name: "stale snapshot", snapshot: bazaar().Stale(), ask: web},
		{name: "cluster domain without a dot", config: "clusterDomain: local\n", ask: "local."},
		{name: "cluster domain below localhost", config: "clusterDomain: k8s.localhost\n", ask: "web.shop.svc.k8s.localhost."},
		{name: "cluster domain of the loop probes", config: "clusterDomain: loop.node-dns\n", ask: "web.shop.svc.loop.node-dns.", wire: true},
		{name: "another cluster domain", config: "clusterDomain: prod.internal\n", ask: "web.shop.svc.prod.internal.", wire: true},
		{name: "cluster.local with another cluster domain", config: "clusterDomain: prod.internal\n", ask: web},
		{name: "no kubeconfig", config: "kubeconfig: none\n", ask: web},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			config, snapshot, client, local, qtype := test.config, test.snapshot, test.client, test.local, test.qtype
			if config == "" {
				config = master
			}
			if snapshot == nil {
				snapshot = bazaar()
			}
			if client == "" {
				client = other
			}
			if local == "" {
				local = "192.0.2.10:53"
			}
			if qtype == 0 {
				qtype = dns.TypeA
			}
			r := still(t, config, snapshot)
			q := asWireQuery(t, wireQuery(t, test.ask, qtype), client, local)
			for range 3 { // then it is ready
				response, ok := r.Fast([]byte("before"), &q)
				if ok != test.wire || !ok && string(response) != "before" {
					t.Fatalf("answered on the fast path: %v", ok)
				}
				if ok {
					sameAsServe(t, r, q, bytes.TrimPrefix(response, []byte("before")))
				}
			}
		})
	}
	if _, ok := still(t, master, nil).Fast(nil, new(asWireQuery(t, wireQuery(t, web, dns.TypeA), other, "192.0.2.10:53"))); ok {
		t.Error("answered before the API was read")
	}
}

// sameAsServe checks that the handler list gives the client the same answer.
func sameAsServe(t *testing.T, r *Resolver, q dnsserver.WireQuery, response []byte) {
	t.Helper()
	onWire := new(dns.Msg)
	if err := onWire.Unpack(response); err != nil {
		t.Fatal(err)
	}
	if got, want := contents(onWire), contents(serveParsed(t, r, q)); got != want {
		t.Errorf("fast path\n%s\nlist\n%s", got, want)
	}
}

// serveParsed returns the handler list's answer to a wire query.
func serveParsed(t *testing.T, r *Resolver, q dnsserver.WireQuery) *dns.Msg {
	t.Helper()
	msg := new(dns.Msg)
	if err := msg.Unpack(q.Msg); err != nil {
		t.Fatal(err)
	}
	parsed := &dnsserver.Query{Msg: msg, Client: q.Client, Local: q.Local, Proto: q.Proto}
	parsed.Name, _ = dnsname.Parse(msg.Question[0].Name)
	m, err := r.ServeDNS(t.Context(), parsed)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func contents(m *dns.Msg) string {
	return fmt.Sprintf("%s, AA %v\n%v\n%v\n%v", dns.RcodeToString[m.Rcode], m.Authoritative, m.Answer, m.Ns, m.Extra)
}

// bazaarQueries returns many questions about the bazaar, each as several clients would send it.
func bazaarQueries(t testing.TB) [][]byte {
	names := []string{
		".", "local.", "cluster.local.", "svc.cluster.local.", "shop.svc.cluster.local.", "void.svc.cluster.local.", "nowhere.svc.cluster.local.",
		"dns.cluster.local.", "ns.dns.cluster.local.", "dns-version.cluster.local.", "10-1-2-3.shop.pod.cluster.local.", "fd00--7.shop.pod.cluster.local.",
		`a\.b.shop.svc.cluster.local.`, `\000\255\009.svc.CLUSTER.local.`, "xcluster.local.", "www.example.com.", "version.bind.", "a.localhost.",
		"9.0.30.172.in-addr.arpa.", "1.3.130.10.in-addr.arpa.", "10.2.0.192.in-addr.arpa.", "30.172.in-addr.arpa.", "0.30.172.in-addr.arpa.", "1.1.2.0.192.in-addr.arpa.",
		"0.1.0.0" + strings.Repeat(".0", 20) + ".0.1.0.0.0.0.d.f.ip6.arpa.",
		strings.Repeat("a.", 117) + "svc.cluster.local.", // the longest name: 255 bytes on the wire
		strings.Repeat(strings.Repeat("x", 63)+".", 3) + strings.Repeat("y", 43) + ".svc.cluster.local.",
	}
	for _, service := range []string{"web", "dual", "site", "here", "db", "wide", "agent", "nowhere"} {
		for _, below := range []string{"", "*.", "_http._tcp.", "_dns._udp.", "_udp.", "_none._tcp.", "db-1.", "10-130-44-7.", "_endpoints.", "a.b."} {
			names = append(names, below+service+".shop.svc.cluster.local.")
		}
	}
	names = append(names, "WeB.Shop.Svc.clusteR.LOCAL.", "_HTTP._tcp.DB.shop.svc.CLUSTER.local.", "web.shop.endpoints.cluster.local.", "openshift.default.svc.cluster.local.")
	as := []func(*dns.Msg){
		func(*dns.Msg) {},
		func(m *dns.Msg) { m.SetEdns0(4096, true); m.CheckingDisabled, m.AuthenticatedData = true, true },
		func(m *dns.Msg) {
			m.SetEdns0(700, false)
			m.RecursionDesired, m.IsEdns0().Option = false, []dns.EDNS0{&dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: "0102030405060708"}}
		},
		func(m *dns.Msg) { m.SetEdns0(0, false); m.Id, m.Zero = 0, true },
	}
	var all [][]byte
	types := []uint16{
		dns.TypeA, dns.TypeAAAA, dns.TypeSRV, dns.TypePTR, dns.TypeTXT, dns.TypeNS, dns.TypeSOA, dns.TypeCNAME, dns.TypeANY, dns.TypeMX,
		dns.TypeHTTPS, dns.TypeDS, dns.TypeOPT, dns.TypeAXFR, dns.TypeTSIG, 0, 200, 65535,
	}
	for i, name := range names {
		for j, qtype := range types {
			all = append(all, wireQuery(t, name, qtype, as[(i+j)%len(as)]))
		}
	}
	return all
}

// bothWays are two servers with one Resolver. Only the first uses the fast path.
type bothWays struct{ wire, parsed netip.AddrPort }

func twoServers(t testing.TB, r *Resolver) bothWays {
	t.Helper()
	return bothWays{listen(t, dnsserver.Config{Handler: r, Wire: r.Fast, Miss: r.Miss}), listen(t, dnsserver.Config{Handler: r})}
}

// listen starts a server until the test ends.
func listen(t testing.TB, c dnsserver.Config) netip.AddrPort {
	t.Helper()
	s := dnsserver.New(c)
	if err := s.Listen([]netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s.Listeners()[0].Addr
}

// conns are connections to both servers.
type conns struct {
	t            testing.TB
	wire, parsed net.Conn
}

func (w bothWays) dial(t testing.TB, network string) conns {
	t.Helper()
	dial := func(addr netip.AddrPort) net.Conn {
		conn, err := net.Dial(network, addr.String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	return conns{t, dial(w.wire), dial(w.parsed)}
}

// same queries both servers and checks that the responses are equal byte by byte. Compression
// pointers may differ, because the resolver and package dns do not always choose the same target.
// Cookies may differ, because each server has its own secret.
func (c conns) same(t *testing.T, query []byte) {
	t.Helper()
	wire, parsed := exchangeOn(t, c.wire, query), exchangeOn(t, c.parsed, query)
	if !bytes.Equal(plain(t, wire), plain(t, parsed)) {
		t.Fatalf("to %x\nfast path\n%x\nparsed\n%x", query, wire, parsed)
	}
}

// plain returns a message without compression pointers and without the server part of a cookie.
func plain(t *testing.T, wire []byte) []byte {
	t.Helper()
	m := new(dns.Msg)
	err := m.Unpack(wire)
	if err == nil {
		if opt := m.IsEdns0(); opt != nil {
			for _, option := range opt.Option {
				if c, ok := option.(*dns.EDNS0_COOKIE); ok {
					c.Cookie = c.Cookie[:16]
				}
			}
		}
		wire, err = m.Pack()
	}
	if err != nil {
		t.Fatalf("%x: %v", wire, err)
	}
	return wire
}

func exchangeOn(t testing.TB, conn net.Conn, query []byte) []byte {
	t.Helper()
	conn.SetDeadline(time.Now().Add(30 * time.Second))
	buf := make([]byte, 1<<16)
	if conn.LocalAddr().Network() == "udp" {
		_, err := conn.Write(query)
		if err != nil {
			t.Fatal(err)
		}
		n, err := conn.Read(buf)
		if err != nil {
			t.Fatalf("%x: %v", query, err)
		}
		return buf[:n]
	}
	if _, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(query))), query...)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, buf[:2]); err != nil {
		t.Fatalf("%x: %v", query, err)
	}
	buf = buf[:binary.BigEndian.Uint16(buf)]
	if _, err := io.ReadFull(conn, buf); err != nil {
		t.Fatalf("%x: %v", query, err)
	}
	return buf
}

// TestSameOnTheWire: with and without the fast path a client gets the same response, over UDP and
// TCP.
func TestSameOnTheWire(t *testing.T) {
	for _, profile := range []string{"kubernetes", "openshift"} {
		t.Run(profile, func(t *testing.T) {
			servers := twoServers(t, still(t, master+"zoneProfile: "+profile+"\n", bazaar()))
			// Repeated queries may have a ready answer.
			for _, network := range []string{"udp", "tcp", "udp", "tcp"} {
				c := servers.dial(t, network)
				for _, query := range bazaarQueries(t) {
					c.same(t, query)
				}
			}
		})
	}
}

// TestServerAsksOnTheWire: if the handler for cluster names fails, they are answered on the fast
// path or not at all.
func TestServerAsksOnTheWire(t *testing.T) {
	r := still(t, master, bazaar())
	r.order = slices.Clone(order[:])
	at := slices.IndexFunc(r.order, func(h handler) bool { return h.name == "cluster" })
	r.order[at].handle = func(context.Context, *state, *dnsserver.Query, rest) (*dns.Msg, error) {
		return nil, errors.New("not parsed")
	}
	addr := twoServers(t, r).wire
	for _, ask := range []func(dnstest.TB, netip.AddrPort, string, uint16, ...dnstest.Option) *dns.Msg{dnstest.Exchange, dnstest.ExchangeTCP} {
		if diff := dnstest.Diff("web.shop.svc.cluster.local. 5 A 172.30.0.9", ask(t, addr, "web.shop.svc.cluster.local.", dns.TypeA)); diff != "" {
			t.Error(diff)
		}
		if m := ask(t, addr, "site.shop.svc.cluster.local.", dns.TypeA); m.Rcode != dns.RcodeServerFailure {
			t.Errorf("an alias: %v", m)
		}
	}
}

// FuzzSameOnTheWire checks the same for arbitrary bytes.
func FuzzSameOnTheWire(f *testing.F) {
	for i, query := range bazaarQueries(f) {
		if i%7 == 0 {
			f.Add(query)
		}
	}
	var both []conns
	for _, profile := range []string{"kubernetes", "openshift"} {
		both = append(both, twoServers(f, still(f, master+"zoneProfile: "+profile+"\n", bazaar())).dial(f, "udp"))
	}
	f.Fuzz(func(t *testing.T, query []byte) {
		if len(query) < 12 || len(query) > 4096 || query[2]&0x80 != 0 {
			return // gets no response
		}
		for _, c := range both {
			for range 3 {
				c.same(t, query)
			}
		}
	})
}

func TestServeWireAllocates(t *testing.T) {
	if lab.RaceEnabled {
		t.Skip("the race detector makes sync.Pool drop items")
	}
	r := still(t, master, bazaar())
	buf := make([]byte, 4096)
	for _, client := range []string{"10.128.0.42", "10.128.0.41", "192.0.2.10"} {
		for name, qtype := range map[string]uint16{
			"web.shop.svc.cluster.local.": dns.TypeA, "_http._tcp.web.shop.svc.cluster.local.": dns.TypeSRV,
			"dual.shop.svc.cluster.local.": dns.TypeAAAA, "Db.shop.svc.cluster.local.": dns.TypeA, "db.shop.svc.cluster.local.": dns.TypeAAAA,
			"9.0.30.172.in-addr.arpa.": dns.TypePTR, "nowhere.default.svc.cluster.local.": dns.TypeTXT,
		} {
			q := asWireQuery(t, wireQuery(t, name, qtype), client, "192.0.2.10:8053")
			if n := testing.AllocsPerRun(100, func() { r.Fast(buf[:0], &q) }); n != 0 {
				t.Errorf("%s for %s: %v allocations", name, client, n)
			}
		}
	}
}

const siteRecords = `
www.example.com. 300 IN A 192.0.2.80
`

func clientQuery(name, client string) *dnsserver.Query {
	return &dnsserver.Query{
		Msg: new(dns.Msg).SetQuestion(name, dns.TypeA), Name: dnsname.MustParse(name),
		Client: netip.AddrPortFrom(netip.MustParseAddr(client), 4000), Local: netip.MustParseAddrPort("127.0.0.1:53"), Proto: dnsserver.UDP,
	}
}
