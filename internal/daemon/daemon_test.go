package daemon

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	"go.uber.org/goleak"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/hostdns"
	"github.com/node-dns/node-dns/internal/netstate"
	"github.com/node-dns/node-dns/internal/nm"
	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/internal/test/lab"
	"github.com/node-dns/node-dns/internal/test/policytest"
)

func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 2*receivers) // like cmd/node-dns
	lab.Overlap(16)
	goleak.VerifyTestMain(m)
}

// receivers is Config.Receivers of the tested daemons. It is more than one, so that queries and
// responses take the same paths as on a node.
const receivers = 2

const siteRecords = `
www.example.com. 300 IN A 192.0.2.80
`

// running is a daemon with its own root directory, listening on loopback.
type running struct {
	t      *testing.T
	root   string
	daemon *Daemon
	ended  chan error
	stop   context.CancelFunc
}

// start runs a daemon with these files below its root, on a loopback port, until the test ends.
func start(t *testing.T, files map[string]string, changes ...func(*Config)) *running {
	t.Helper()
	r := launch(t, files, changes...)
	r.await("the daemon is up", func() bool { return len(r.status().Listeners) > 0 })
	return r
}

// launch is start for a daemon that may have no listener.
func launch(t *testing.T, files map[string]string, changes ...func(*Config)) *running {
	t.Helper()
	r := &running{t: t, root: lab.MemoryDir(t), ended: make(chan error, 1)}
	files["/etc/resolv.conf"] += "# the site's\n"
	for path, text := range files {
		write(t, filepath.Join(r.root, path), text)
	}
	var ctx context.Context
	ctx, r.stop = context.WithCancel(t.Context())
	config := Config{
		Receivers:    receivers,
		Root:         r.root,
		Listen:       []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")},
		LookInterval: 5 * time.Millisecond, // each status in a test waits for a look
		Looker: hostdns.Looker{
			Net:            func(context.Context) (netstate.State, error) { return policytest.Node(), nil },
			NetworkManager: func(context.Context) (nm.Snapshot, error) { return nm.Snapshot{}, nm.ErrNotRunning },
		},
	}
	for _, change := range changes {
		change(&config)
	}
	var err error
	if r.daemon, err = New(config); err != nil {
		t.Fatal(err)
	}
	go func() { r.ended <- r.daemon.run(ctx) }()
	t.Cleanup(func() {
		r.stop()
		if err, ok := <-r.ended; ok && err != nil {
			t.Errorf("the daemon ended with %v", err)
		}
	})
	return r
}

// status returns the daemon's status, or the zero Status if it does not run.
func (r *running) status() control.Status {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	status, err := control.FetchStatus(ctx, control.SocketPath(r.root))
	if err != nil {
		return control.Status{}
	}
	return status
}

func (r *running) address() netip.AddrPort {
	r.t.Helper()
	return netip.MustParseAddrPort(r.status().Listeners[0].Address)
}

// await waits for asynchronous work of other goroutines and the kernel.
func (r *running) await(what string, done func() bool) {
	r.t.Helper()
	begun := time.Now()
	for !done() {
		waited := time.Since(begun)
		if waited > 20*time.Second {
			r.t.Fatalf("timed out waiting until %s; status: %+v", what, r.status())
		}
		time.Sleep(min(5*time.Millisecond+waited/10, 50*time.Millisecond)) // a status may cost a look at the host
	}
}

// servers returns the addresses of the root route's servers.
func (r *running) servers() []string {
	var all []string
	for _, route := range r.status().Routes {
		if route.Domain == "." {
			for _, server := range route.Servers {
				all = append(all, server.Address)
			}
		}
	}
	return all
}

// upstreamFile returns the file that the dispatcher writes for the daemon.
func upstreamFile(servers ...*dnstest.Server) string {
	var text strings.Builder
	for _, server := range servers {
		text.WriteString("server=" + strings.ReplaceAll(server.Addr().String(), ":", "#") + "\n")
	}
	return text.String()
}

const upstreamPath = "/etc/dnsmasq.d/origin-upstream-dns.conf"

func TestForwardsAndRemembers(t *testing.T) {
	t.Parallel()
	site := dnstest.NewServer(t, siteRecords)
	r := start(t, map[string]string{upstreamPath: upstreamFile(site)})
	for range 3 {
		m := dnstest.Exchange(t, r.address(), "www.example.com.", dns.TypeA)
		if firstValue(m) != "192.0.2.80" {
			t.Fatalf("got %v", m)
		}
	}
	m := dnstest.ExchangeTCP(t, r.address(), "www.example.com.", dns.TypeA)
	if firstValue(m) != "192.0.2.80" {
		t.Fatalf("over TCP: %v", m)
	}
	if n := site.QueriesFor("www.example.com.", dns.TypeA); n != 1 {
		t.Errorf("the upstream got %d queries, want 1", n)
	}
	status := r.status()
	if !status.Ready || status.Cache.Hits != 3 {
		t.Errorf("ready %v, %d hits; expected ready and 3", status.Ready, status.Cache.Hits)
	}
}

// TestTakesOverUpstreams: new upstreams are used without a restart, and cached answers from the old
// ones are dropped.
func TestTakesOverUpstreams(t *testing.T) {
	t.Parallel()
	old, next := dnstest.NewServer(t, siteRecords), dnstest.NewServer(t, "www.example.com. 300 IN A 192.0.2.81\n")
	r := start(t, map[string]string{upstreamPath: upstreamFile(old)})
	if m := dnstest.Exchange(t, r.address(), "www.example.com.", dns.TypeA); firstValue(m) != "192.0.2.80" {
		t.Fatalf("got %v", m)
	}
	write(t, filepath.Join(r.root, upstreamPath), upstreamFile(next))
	r.await("the new upstream is used", func() bool {
		return slices.Equal(r.servers(), []string{next.Addr().String()})
	})
	if m := dnstest.Exchange(t, r.address(), "www.example.com.", dns.TypeA); firstValue(m) != "192.0.2.81" {
		t.Errorf("after the change: %v", m)
	}
}

// TestEmptiedUpstreamFile is the script's bug B4: an emptied list must not stop all resolution (law
// 2).
func TestEmptiedUpstreamFile(t *testing.T) {
	t.Parallel()
	site := dnstest.NewServer(t, siteRecords)
	record := `{"version": 1, "servers": ["` + site.Addr().String() + `"], "origin": "NetworkManager"}`
	r := start(t, map[string]string{upstreamPath: upstreamFile(site), "/var/lib/node-dns/upstreams.json": record})
	if err := os.WriteFile(filepath.Join(r.root, upstreamPath), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	r.daemonLooks()
	if m := dnstest.Exchange(t, r.address(), "www.example.com.", dns.TypeA); firstValue(m) != "192.0.2.80" {
		t.Errorf("got %v", m)
	}
}

// daemonLooks waits until the daemon has looked at its files again. It writes a mark to resolv.conf
// and waits until the daemon has seen it.
func (r *running) daemonLooks() {
	r.t.Helper()
	const mark = "# looked at\n"
	write(r.t, filepath.Join(r.root, "/etc/resolv.conf"), mark)
	r.await("the daemon has looked", func() bool { return string(r.daemon.view.Host.Load().State.ResolvConf.Data) == mark })
}

func TestClusterNames(t *testing.T) {
	t.Parallel()
	cluster := dnstest.NewServer(t, "web.shop.svc.cluster.local. 30 IN A 172.30.44.7\n7.44.30.172.in-addr.arpa. 30 IN PTR web.shop.svc.cluster.local.\n")
	site := dnstest.NewServer(t, "web.shop.svc.cluster.local. 30 IN A 192.0.2.66\n")
	known := "clusterDNS: [\"" + cluster.Addr().String() + "\"]\nserviceCIDRs: [172.30.0.0/16]\n"
	tests := []struct {
		name   string
		config string
		rcode  int
		answer string
		code   uint16 // RFC 8914
	}{
		{"go to the cluster DNS server", known, dns.RcodeSuccess, "172.30.44.7", 0},
		{"are SERVFAIL while unknown, and never sent upstream", "", dns.RcodeServerFailure, "", dns.ExtendedErrorCodeNotReady},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := start(t, map[string]string{upstreamPath: upstreamFile(site), "/etc/node-dns/node-dns.yaml": test.config})
			m := dnstest.Exchange(t, r.address(), "web.shop.svc.cluster.local.", dns.TypeA, dnstest.EDNS(1232))
			if m.Rcode != test.rcode || firstValue(m) != test.answer || extendedError(m) != test.code {
				t.Errorf("got %v", m)
			}
			if n := site.QueriesFor("web.shop.svc.cluster.local.", dns.TypeA); n != 0 {
				t.Errorf("the site's nameserver got %d queries for a cluster name", n)
			}
		})
	}
}

func extendedError(m *dns.Msg) uint16 {
	if opt := m.IsEdns0(); opt != nil {
		for _, option := range opt.Option {
			if ede, ok := option.(*dns.EDNS0_EDE); ok {
				return ede.InfoCode
			}
		}
	}
	return 0
}

// TestReload is law 8: a faulty file keeps the running configuration, a good one takes effect.
func TestReload(t *testing.T) {
	t.Parallel()
	first, second := dnstest.NewServer(t, siteRecords), dnstest.NewServer(t, siteRecords)
	upstreams := func(s *dnstest.Server) string { return "upstreams: [\"" + s.Addr().String() + "\"]\n" }
	r := start(t, map[string]string{"/etc/node-dns/node-dns.yaml": upstreams(first)})
	steps := []struct {
		name, text string
		fails      string // part of the error
		server     *dnstest.Server
	}{
		{"a bad file", "upstreams: [not-an-address]\n", "node-dns.yaml:1:13", first},
		{"a good file", upstreams(second) + "cacheSize: 0\n", "", second},
	}
	for _, step := range steps {
		write(t, filepath.Join(r.root, "/etc/node-dns/node-dns.yaml"), step.text)
		err := r.daemon.reload(t.Context())
		if step.fails == "" && err != nil || step.fails != "" && (err == nil || !strings.Contains(err.Error(), step.fails)) {
			t.Errorf("%s: %v, expected %q", step.name, err, step.fails)
		}
		if want := []string{step.server.Addr().String()}; !slices.Equal(r.servers(), want) {
			t.Errorf("%s: upstreams %v, want %v", step.name, r.servers(), want)
		}
	}
	if size := r.status().Cache.Size; size != 0 {
		t.Errorf("the cache's size is %d after cacheSize: 0", size)
	}
}

// TestDrain: a query in flight is answered after the daemon was told to stop.
func TestDrain(t *testing.T) {
	t.Parallel()
	site := dnstest.NewServer(t, siteRecords)
	site.SetFaults(dnstest.Faults{Delay: 300 * time.Millisecond})
	r := start(t, map[string]string{upstreamPath: upstreamFile(site)})
	address := r.address()
	answer := make(chan *dns.Msg, 1)
	go func() {
		m, _ := dns.Exchange(new(dns.Msg).SetQuestion("www.example.com.", dns.TypeA), address.String())
		answer <- m
	}()
	r.await("the upstream is queried", func() bool { return site.QueriesFor("www.example.com.", dns.TypeA) > 0 })
	r.stop()
	if m := <-answer; m == nil || firstValue(m) != "192.0.2.80" {
		t.Errorf("got %v", m)
	}
	if err := <-r.ended; err != nil {
		t.Error(err)
	}
	close(r.ended)
	for _, path := range []string{"/run/node-dns/ready", "/run/node-dns/control.sock"} {
		if _, err := os.Stat(filepath.Join(r.root, path)); !os.IsNotExist(err) {
			t.Errorf("%s still exists: %v", path, err)
		}
	}
}
