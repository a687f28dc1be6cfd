package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/godbus/dbus/v5"
	"github.com/miekg/dns"
	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/admin/dbusapi"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/dnsmasqconf"
	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/internal/test/kubetest"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// restart stops the daemon and starts it again, like a new process.
func (r *running) restart() {
	r.t.Helper()
	r.stop()
	if err := <-r.ended; err != nil {
		r.t.Fatalf("the daemon ended with %v", err)
	}
	var ctx context.Context
	ctx, r.stop = context.WithCancel(r.t.Context())
	daemon, err := New(r.daemon.config)
	if err != nil {
		r.t.Fatal(err)
	}
	r.daemon = daemon
	go func() { r.ended <- daemon.run(ctx) }()
	r.await("the daemon is up again", func() bool { return len(r.status().Listeners) > 0 })
}

// routes returns the routes in force, as "DOMAIN=SERVERS".
func (r *running) routes() string {
	var words []string
	for _, route := range r.status().Routes {
		var servers []string
		for _, server := range route.Servers {
			servers = append(servers, server.Address)
		}
		words = append(words, route.Domain+"="+strings.Join(servers, ","))
	}
	return strings.Join(words, " ")
}

// answer returns the daemon's answer as one line.
func (r *running) answer(name string, qtype uint16) string {
	r.t.Helper()
	m := dnstest.Exchange(r.t, r.address(), name, qtype)
	var words []string
	for _, rr := range m.Answer {
		words = append(words, strings.TrimPrefix(rr.String(), rr.Header().String()))
	}
	return strings.TrimSpace(dns.RcodeToString[m.Rcode] + " " + strings.Join(words, " "))
}

// An sdn imitates the dnsmasq part of OpenShift's node process (pkg/dns/dnsmasq.go of origin). It
// sends the same two servers on each Up signal, and every 30 s, for which the test calls tick.
type sdn struct {
	t       *testing.T
	conn    *dbus.Conn
	signals chan *dbus.Signal
	servers []string
}

func newSDN(t *testing.T, b *lab.PrivateBus, self netip.AddrPort) *sdn {
	t.Helper()
	s := &sdn{t: t, conn: connect(t, b), signals: make(chan *dbus.Signal, 16)}
	port := ""
	if self.Port() != 53 {
		port = fmt.Sprintf("#%d", self.Port())
	}
	s.servers = []string{"/in-addr.arpa/127.0.0.1" + port, "/cluster.local/127.0.0.1" + port}
	err := s.conn.AddMatchSignal(dbus.WithMatchObjectPath("/uk/org/thekelleys/dnsmasq"), dbus.WithMatchMember("Up"))
	if err != nil {
		t.Fatal(err)
	}
	s.conn.Signal(s.signals)
	return s
}

func (s *sdn) awaitUp() {
	s.t.Helper()
	for signal := range s.signals {
		if signal.Name == dbusapi.DnsmasqName+".Up" {
			return
		}
	}
	s.t.Fatal("the bus connection is closed")
}

// tick makes the call like OpenShift does: with an interface name that does not exist.
func (s *sdn) tick() {
	s.t.Helper()
	err := s.conn.Object(dbusapi.DnsmasqName, "/uk/org/thekelleys/dnsmasq").Call("uk.org.thekelleys.SetDomainServers", 0, s.servers).Err
	if err != nil {
		s.t.Fatal(err)
	}
}

// TestOpenShiftSDN: the nameserver that OpenShift's node process sets is this daemon, so it is not
// queried. The names that it routes there are answered: cluster names by the daemon, reverse names
// of site addresses by the site.
func TestOpenShiftSDN(t *testing.T) {
	t.Parallel()
	api, site := kubetest.NewServer(t), dnstest.NewServer(t, siteRecords+"80.2.0.192.in-addr.arpa. 300 IN PTR www.example.com.\n")
	api.Apply(shop)
	b := lab.NewPrivateBus(t)
	b.Start()
	at := dnstest.FreePort(t)
	openshift := newSDN(t, b, at)
	r := start(t, map[string]string{kubeconfigPath: string(api.Kubeconfig()), upstreamPath: upstreamFile(site)}, func(c *Config) {
		c.Bus, c.Listen = b.Address(), []netip.AddrPort{at}
	})
	openshift.awaitUp()
	openshift.tick()
	r.synced()
	check := func() {
		t.Helper()
		for question, want := range map[string]string{
			"web.shop.svc.cluster.local. A":   "NOERROR 172.30.0.9",
			"9.0.30.172.in-addr.arpa. PTR":    "NOERROR web.shop.svc.cluster.local.",
			"80.2.0.192.in-addr.arpa. PTR":    "NOERROR www.example.com.",
			"81.2.0.192.in-addr.arpa. PTR":    "NXDOMAIN",
			"no.where.svc.cluster.local. A":   "NXDOMAIN",
			"www.example.com. A":              "NOERROR 192.0.2.80",
			"nowhere.example.com.invalid. MX": "NXDOMAIN",
		} {
			name, qtype, _ := strings.Cut(question, " ")
			if got := r.answer(name, dns.StringToType[qtype]); got != want {
				t.Errorf("%s: %s, want %s", question, got, want)
			}
		}
		r.await("no problem, and the note", func() bool { // a daemon that has just started may not have its names yet
			status := r.status()
			return len(status.Problems) == 0 && slices.ContainsFunc(status.Notes, func(n string) bool {
				return strings.Contains(n, "for cluster.local. (D-Bus SetDomainServers by daemon.test (pid ") && strings.Contains(n, "it is this node, so the entry has no effect")
			})
		})
		status := r.status()
		if got := strings.Join(status.Bus.Servers, " "); got != strings.Join(openshift.servers, " ") {
			t.Errorf("servers %s", got)
		}
	}
	check()

	before, err := os.Stat(r.daemon.paths.bus)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		openshift.tick()
	}
	if after, err := os.Stat(r.daemon.paths.bus); err != nil || !os.SameFile(before, after) {
		t.Errorf("the same servers were saved again: %v", err)
	}

	b.Kill()
	r.await("the loss of the bus", func() bool { return r.status().Bus.Error != "" })
	check() // during the outage
	b.Start()
	r.await("the name", func() bool { names := r.status().Bus.Names; return len(names) == 2 && names[0].Owned && names[1].Owned })
	openshift = newSDN(t, b, at)
	openshift.tick()
	check()

	openshift.conn.Close()
	r.restart() // from here on, no client sets anything
	r.synced()
	check()
	for _, q := range site.Received() {
		if strings.HasSuffix(q.Msg.Question[0].Name, "cluster.local.") {
			t.Errorf("%s was sent to the site", q.Msg.Question[0].Name)
		}
	}
}

// TestBusIsKept: settings made over D-Bus survive a restart until they are replaced.
func TestBusIsKept(t *testing.T) {
	t.Parallel()
	first, second, site := dnstest.NewServer(t, firstRecords), dnstest.NewServer(t, secondRecords), dnstest.NewServer(t, siteRecords)
	b := lab.NewPrivateBus(t)
	b.Start()
	at := dnstest.FreePort(t)
	r := start(t, map[string]string{upstreamPath: upstreamFile(site)}, func(c *Config) { c.Bus, c.Listen = b.Address(), []netip.AddrPort{at} })
	p := newPeer(t, b, at)
	dnsmasq := func(s *dnstest.Server) string { return strings.Replace(s.Addr().String(), ":", "#", 1) }
	p.call("SetDomainServers", []string{dnsmasq(first), "/b.a.example/" + dnsmasq(second)})
	p.call("SetFilterAAAA", true)
	for range 2 {
		if got := r.answer("a.example.", dns.TypeA) + " " + r.answer("b.a.example.", dns.TypeA) + " " + r.answer("a.example.", dns.TypeAAAA); got != "NOERROR 192.0.2.1 NOERROR 192.0.2.12 NOERROR" {
			t.Error(got)
		}
		status := r.status()
		if !strings.HasPrefix(status.Bus.ServersBy, "SetDomainServers by daemon.test (pid ") || !strings.HasPrefix(status.Bus.OptionsBy, "SetFilterAAAA by ") {
			t.Errorf("%+v", status.Bus)
		}
		if len(status.Overridden) != 1 || status.Overridden[0].Servers[0] != site.Addr().String() {
			t.Errorf("overridden %+v", status.Overridden)
		}
		r.restart()
	}
	p = newPeer(t, b, at)
	p.call("SetDomainServers", []string{})
	p.call("SetFilterAAAA", false)
	if got, want := r.routes(), ".="+site.Addr().String(); got != want {
		t.Errorf("routes %s", got)
	}
	if _, err := os.Stat(r.daemon.paths.bus); !os.IsNotExist(err) {
		t.Errorf("the file still exists: %v", err)
	}
	r.restart()
	if got := r.answer("www.example.com.", dns.TypeA); got != "NOERROR 192.0.2.80" {
		t.Error(got)
	}
}

// TestBusRefusesInterface: a server with an interface that can never be bound to is refused. Since
// Linux 5.7 any user may bind to an interface, so the test provokes the failure by a lack of file
// descriptors.
func TestBusRefusesInterface(t *testing.T) {
	rule := dnsmasqconf.Rule{Server: nameserver.Server{Addr: netip.MustParseAddrPort("192.0.2.99:53"), Interface: "lo"}}
	d := &Daemon{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // no follower is running
	var usual unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &usual); err != nil {
		t.Fatal(err)
	}
	none := usual
	none.Cur = 0
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	err := d.setOverBus(ctx, dbusapi.State{Rules: []dnsmasqconf.Rule{rule}})
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &usual); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(err, unix.EMFILE) {
		t.Errorf("%v", err)
	}
}

// TestBusIsNotKept: a file that cannot be written is reported as a problem. A file that cannot be
// read does not stop the daemon.
func TestBusIsNotKept(t *testing.T) {
	t.Parallel()
	b := lab.NewPrivateBus(t)
	b.Start()
	at := dnstest.FreePort(t)
	r := start(t, map[string]string{"/run/node-dns/dbus.json": "{"}, func(c *Config) { c.Bus, c.Listen = b.Address(), []netip.AddrPort{at} })
	p := newPeer(t, b, at)
	if err := os.Remove(r.daemon.paths.bus); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(r.daemon.paths.bus, "in the way"), "x")
	p.call("SetDomainServers", []string{"192.0.2.99"})
	if got := r.routes(); got != ".=192.0.2.99" {
		t.Errorf("routes %s", got)
	}
	if problems := strings.Join(r.status().Problems, "\n"); !strings.Contains(problems, "saving the D-Bus settings: ") {
		t.Errorf("problems %s", problems)
	}
}

// TestBusOptOut: with "dbus: node-dns" no client can set anything, with "dbus: none" no client can
// connect, and earlier settings are dropped.
func TestBusOptOut(t *testing.T) {
	t.Parallel()
	b := lab.NewPrivateBus(t)
	b.Start()
	at := dnstest.FreePort(t)
	r := start(t, map[string]string{}, func(c *Config) { c.Bus, c.Listen = b.Address(), []netip.AddrPort{at} })
	p := newPeer(t, b, at)
	p.call("SetDomainServers", []string{"192.0.2.99"})
	owned := func(name string) (owned bool) {
		if err := p.conn.BusObject().Call("org.freedesktop.DBus.NameHasOwner", 0, name).Store(&owned); err != nil {
			t.Fatal(err)
		}
		return owned
	}
	for _, step := range []struct {
		value            string
		dnsmasq, manager bool
	}{{"node-dns", false, true}, {"none", false, false}, {"dnsmasq", true, true}} {
		write(t, filepath.Join(r.root, "/etc/node-dns/node-dns.yaml"), "dbus: "+step.value+"\n")
		if err := r.daemon.reload(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.await("the names", func() bool {
			return owned(dbusapi.DnsmasqName) == step.dnsmasq && owned(dbusapi.ManagerName) == step.manager
		})
		if got := r.routes(); got != "" {
			t.Errorf("dbus %s: routes %s", step.value, got)
		}
		if step.value == "node-dns" { // the object exists under each bus name
			err := p.conn.Object(dbusapi.ManagerName, "/uk/org/thekelleys/dnsmasq").Call("x.y.SetDomainServers", 0, []string{"192.0.2.99"}).Err
			if err == nil || !strings.Contains(err.Error(), "dbus in node-dns.yaml does not allow changes") {
				t.Errorf("%v", err)
			}
		}
	}
}

// TestClusterOverBus: a server for the cluster domain overrides the cluster's own data, including
// on the fast path. An AAAA filter applies to the cluster's names. filterwin2k does not apply to
// its services.
func TestClusterOverBus(t *testing.T) {
	t.Parallel()
	api, other := kubetest.NewServer(t), dnstest.NewServer(t, "web.shop.svc.cluster.local. 30 IN A 192.0.2.66\n")
	api.Apply(shop)
	b := lab.NewPrivateBus(t)
	b.Start()
	at := dnstest.FreePort(t)
	r := start(t, map[string]string{kubeconfigPath: string(api.Kubeconfig())}, func(c *Config) { c.Bus, c.Listen = b.Address(), []netip.AddrPort{at} })
	p := newPeer(t, b, at)
	r.synced()
	web := func() string { return r.answer("web.shop.svc.cluster.local.", dns.TypeA) }
	steps := []struct {
		method string
		arg    any
		want   string
	}{
		{"SetDomainServers", []string{}, "NOERROR 172.30.0.9"},
		{"SetDomainServers", []string{strings.Replace(other.Addr().String(), ":", "#", 1)}, "NOERROR 172.30.0.9"},
		{"SetDomainServers", []string{"/cluster.local/" + strings.Replace(other.Addr().String(), ":", "#", 1)}, "NOERROR 192.0.2.66"},
		{"SetDomainServers", []string{"/cluster.local/"}, "NOERROR 172.30.0.9"},
		{"SetDomainServers", []string{"//"}, "NOERROR 172.30.0.9"},
		{"SetFilterA", true, "NOERROR"},
		{"SetFilterA", false, "NOERROR 172.30.0.9"},
		{"SetFilterAAAA", true, "NOERROR 172.30.0.9"},
		{"SetFilterWin2KOption", true, "NOERROR 172.30.0.9"},
	}
	for _, step := range steps {
		if reply := p.call(step.method, step.arg); reply != " " {
			t.Errorf("%s%v: %s", step.method, step.arg, reply)
		}
		got := web()
		for again := 0; got == "SERVFAIL" && again < 5; again++ { // other was slower than the forwarder's timeout
			got = web()
		}
		if got != step.want {
			t.Errorf("%s%v: %s, want %s", step.method, step.arg, got, step.want)
		}
	}
	if got := r.answer("_http._tcp.web.shop.svc.cluster.local.", dns.TypeSRV); !strings.HasPrefix(got, "NOERROR 0 100 80 ") {
		t.Errorf("with filterwin2k a service has %s", got)
	}
	if got := r.answer("localhost.", dns.TypeAAAA); got != "NOERROR ::1" {
		t.Errorf("with filter-AAAA localhost has %s", got)
	}
}

// TestBusTells: clients that listen for PropertiesChanged are notified when a server goes down and
// when it returns.
func TestBusTells(t *testing.T) {
	t.Parallel()
	site := dnstest.NewServer(t, siteRecords)
	b := lab.NewPrivateBus(t)
	b.Start()
	at := dnstest.FreePort(t)
	r := start(t, map[string]string{upstreamPath: upstreamFile(site)}, func(c *Config) { c.Bus, c.Listen = b.Address(), []netip.AddrPort{at} })
	p := newPeer(t, b, at)
	if err := p.conn.AddMatchSignal(dbus.WithMatchMember("PropertiesChanged"), dbus.WithMatchSender(dbusapi.ManagerName)); err != nil {
		t.Fatal(err)
	}
	signals := make(chan *dbus.Signal, 100)
	p.conn.Signal(signals)
	awaitState := func(want string) {
		t.Helper()
		for signal := range signals {
			if len(signal.Body) != 3 {
				continue // NameAcquired
			}
			upstreams, ok := signal.Body[1].(map[string]dbus.Variant)["Upstreams"]
			if ok && strings.Contains(upstreams.String(), `"`+want+`"`) {
				return
			}
		}
	}
	r.answer("www.example.com.", dns.TypeA)
	awaitState("up")
	site.Down()
	for i := range 4 {
		r.answer(fmt.Sprintf("n%d.example.com.", i), dns.TypeA)
	}
	awaitState("down")
	if err := site.Up(); err != nil {
		t.Fatal(err)
	}
	r.answer("again.example.com.", dns.TypeA)
	awaitState("up")
}
