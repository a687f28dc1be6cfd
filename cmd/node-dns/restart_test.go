package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
	"github.com/miekg/dns"
	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/internal/test/kubetest"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// service is a node-dns process under a fake service manager.
type service struct {
	*lab.Manager
	t    testing.TB
	root string
	at   netip.AddrPort
	site *dnstest.Server // has an answer for every name
	slow *dnstest.Server // has an answer for every name below slow.example, after a delay

	longest time.Duration // longest start

	loading    *dnstest.Loading // the load of tally
	unanswered int              // queries without an answer when the daemon was killed
}

// kill ends the daemon with SIGKILL. Queries that it has read but not answered are lost.
func (s *service) kill() {
	s.t.Helper()
	if err := s.End(syscall.SIGKILL); err == nil {
		s.t.Error("the daemon was not killed")
	}
	s.unanswered += s.loading.Unanswered()
}

// Start starts the daemon and records the longest start.
func (s *service) Start() {
	s.t.Helper()
	begun := time.Now()
	s.Manager.Start()
	s.longest = max(s.longest, time.Since(begun))
}

// newService starts node-dns with a cluster, an upstream nameserver, and one that answers after the
// given delay.
func newService(t testing.TB, room int, slow time.Duration) *service {
	t.Helper()
	return newServiceAt(t, room, slow, "unix:path=/nowhere")
}

// newServiceAt is newService with a system bus.
func newServiceAt(t testing.TB, room int, slow time.Duration, bus string) *service {
	t.Helper()
	if testing.Short() {
		t.Skip("starts daemons")
	}
	s := &service{
		t: t, root: lab.ShortDir(t),
		site: dnstest.NewServer(t, dnstest.MixedSite), slow: dnstest.NewServer(t, dnstest.MixedSlow),
	}
	s.slow.SetFaults(dnstest.Faults{Delay: slow})
	api := kubetest.NewServer(t)
	s.at = dnstest.FreePort(t)
	api.Apply(kubetest.Shop(dnstest.MixedService))
	s.write("/etc/node-dns/kubeconfig", string(api.Kubeconfig()))
	s.write("/etc/node-dns/node-dns.yaml", "routes: [{domain: slow.example, servers: ["+s.slow.Addr().String()+"]}]\n")
	s.Manager = lab.NewManager(t, room, []string{"DBUS_SYSTEM_BUS_ADDRESS=" + bus}, "node-dns", "--root", s.root, "serve",
		"--listen", s.at.String(), "--upstream", s.site.Addr().String())
	s.Start()
	s.await("the cluster to be known", func() bool {
		status, err := control.FetchStatus(t.Context(), control.SocketPath(s.root))
		return err == nil && status.Cluster.Resolver != nil && status.Cluster.Resolver.Phase == "synced"
	})
	return s
}

func (s *service) write(path, text string) {
	s.t.Helper()
	path = filepath.Join(s.root, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s *service) await(what string, done func() bool) {
	s.t.Helper()
	if !lab.Poll(20*time.Second, done) {
		s.t.Fatalf("timeout waiting for %s", what)
	}
}

// Longer starts are due to an overloaded machine. The sockets hold one second of queries with the
// kernel's default buffer size (net.core.rmem_max), and clients wait for 5 s.
const (
	roomLasts   = time.Second
	clientsStay = 4 * time.Second
)

// load sends queries during an operation. Every query must be answered, except those that a kill
// may have lost and those that a start was too slow for.
func (s *service) load(rate int, during func()) {
	s.t.Helper()
	s.longest, s.unanswered = 0, 0
	tally := s.tally(rate, during)
	may := s.unanswered
	switch {
	case s.longest > clientsStay:
		may = tally.Lost
	case s.longest > roomLasts:
		may += int(dnstest.SocketDrops(s.at.Port()))
	}
	if tally.Lost > may || tally.Wrong > 0 {
		s.t.Errorf("wrong or missing answers: %d may be lost; the longest start took %v", may, s.longest)
	}
}

// tally sends queries during an operation.
func (s *service) tally(rate int, during func()) dnstest.Tally {
	s.t.Helper()
	clients := []netip.Addr{netip.MustParseAddr("127.0.0.2"), netip.MustParseAddr("127.0.0.3"), netip.MustParseAddr("127.0.0.4")}
	loading, err := dnstest.Load{Server: s.at, Rate: rate, Asks: dnstest.Mixed(), Clients: clients}.Start()
	if err != nil {
		s.t.Fatal(err)
	}
	s.loading = loading
	time.Sleep(300 * time.Millisecond)
	during()
	time.Sleep(300 * time.Millisecond)
	tally := loading.Stop()
	s.t.Logf("%v; the server's sockets dropped %d", tally, dnstest.SocketDrops(s.at.Port()))
	return tally
}

// TestRestarts: no query is lost or answered wrongly while the daemon is restarted ten times.
func TestRestarts(t *testing.T) {
	s := newService(t, 100, 150*time.Millisecond)
	s.load(300, func() {
		for range 10 {
			if err := s.End(syscall.SIGTERM); err != nil {
				t.Errorf("ended with %v", err)
			}
			s.Start()
			time.Sleep(300 * time.Millisecond) // long enough for an answer of the slow nameserver
		}
	})
	if got, want := s.Held(), s.sockets(); !sameSet(got, want) {
		t.Errorf("the service manager holds %q, want %q", got, want)
	}
}

// TestRestartWithoutUpstream: if the upstream nameservers are silent, a daemon that is being
// restarted answers the queries it has received, with stale answers or SERVFAIL.
func TestRestartWithoutUpstream(t *testing.T) {
	s := newService(t, 100, 0)
	fading := dnstest.NewServer(t, "*. 1 IN A 192.0.2.82\n")
	s.write("/etc/node-dns/node-dns.yaml", "routes: [{domain: fading.example, servers: ["+fading.Addr().String()+"]}]\n")
	restart := func() {
		if err := s.End(syscall.SIGTERM); err != nil {
			t.Errorf("ended with %v", err)
		}
		s.Start()
	}
	restart()
	s.ask("www.fading.example.")
	time.Sleep(1100 * time.Millisecond) // its TTL
	for _, server := range []*dnstest.Server{s.site, fading} {
		server.SetFaults(dnstest.Faults{Drop: true})
	}
	questions := map[string]int{"www.fading.example.": dns.RcodeSuccess, "n.fading.example.": dns.RcodeServerFailure}
	for i := range 20 {
		questions[fmt.Sprintf("n%d.example.", i)] = dns.RcodeServerFailure
	}
	var asking sync.WaitGroup
	for name, want := range questions {
		asking.Go(func() {
			client := dns.Client{Timeout: 20 * time.Second}
			m, _, err := client.Exchange(new(dns.Msg).SetQuestion(name, dns.TypeA), s.at.String())
			if err != nil || m.Rcode != want {
				t.Errorf("%s: %v, %v", name, m, err)
			}
		})
	}
	s.await("the questions to be under way", func() bool {
		for name := range questions {
			if name != "www.fading.example." && s.site.QueriesFor(name, dns.TypeA)+fading.QueriesFor(name, dns.TypeA) == 0 {
				return false
			}
		}
		return true
	})
	restart()
	asking.Wait()
}

// job is systemd's pending job for the service, as reported over the bus
// (org.freedesktop.systemd1(5)).
type job struct{ kind string }

const unitPath, jobPath = dbus.ObjectPath("/org/freedesktop/systemd1/unit/node_2ddns_2eservice"), dbus.ObjectPath("/org/freedesktop/systemd1/job/1")

// GetUnit implements org.freedesktop.systemd1.Manager.
func (j job) GetUnit(string) (dbus.ObjectPath, *dbus.Error) { return unitPath, nil }

// Get implements org.freedesktop.DBus.Properties.
func (j job) Get(_, property string) (dbus.Variant, *dbus.Error) {
	if property == "JobType" {
		return dbus.MakeVariant(j.kind), nil
	}
	return dbus.MakeVariant(struct {
		ID   uint32
		Path dbus.ObjectPath
	}{1, jobPath}), nil
}

// systemdWith starts a bus on which systemd reports a job.
func systemdWith(t *testing.T, kind string) (address string) {
	t.Helper()
	b := lab.NewPrivateBus(t)
	b.Start()
	conn, err := dbus.Connect(b.Address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	const properties = "org.freedesktop.DBus.Properties"
	_, err = conn.RequestName("org.freedesktop.systemd1", dbus.NameFlagDoNotQueue)
	err = errors.Join(err, conn.Export(job{kind}, "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager"),
		conn.Export(job{kind}, unitPath, properties), conn.Export(job{kind}, jobPath, properties))
	if err != nil {
		t.Fatal(err)
	}
	return b.Address()
}

// TestStopAndStart: a daemon that is stopped for good hands nothing over, and one that is restarted
// does. No query before the next start is answered wrongly.
func TestStopAndStart(t *testing.T) {
	for kind, handsOver := range map[string]bool{"stop": false, "restart": true} {
		t.Run(kind, func(t *testing.T) {
			s := newServiceAt(t, 100, 50*time.Millisecond, systemdWith(t, kind))
			tally := s.tally(300, func() {
				for range 3 {
					if err := s.End(syscall.SIGTERM); err != nil {
						t.Errorf("ended with %v", err)
					}
					if !handsOver {
						for _, name := range s.Held() {
							s.Forget(name) // FileDescriptorStorePreserve=restart
						}
					}
					s.Start()
					time.Sleep(300 * time.Millisecond)
				}
			})
			if tally.Wrong > 0 || handsOver && tally.Lost > 0 {
				t.Error("wrong or missing answers")
			}
			if got := strings.Contains(s.Output(), "handed over"); got != handsOver {
				t.Errorf("handed over: %v", got)
			}
		})
	}
}

// TestKills: if the daemon is killed twenty times, no query is answered
// wrongly, and only those are lost that it had already read.
func TestKills(t *testing.T) {
	s := newService(t, 100, 100*time.Millisecond)
	if err := s.End(syscall.SIGTERM); err != nil { // it saves its snapshot of the cluster
		t.Errorf("ended with %v", err)
	}
	s.Start()
	s.load(300, func() {
		for range 20 {
			s.kill()
			time.Sleep(100 * time.Millisecond) // RestartSec= of node-dns.service
			s.Start()
			time.Sleep(400 * time.Millisecond)
		}
	})
}

// BenchmarkKills counts the queries that SIGKILL loses at 2,000 per second.
// docs/explanation/faults.md has the results for -benchtime 100x.
func BenchmarkKills(b *testing.B) {
	for _, row := range []struct {
		name string
		room int // of the service manager
		slow time.Duration
	}{
		{"all upstreams are fast", 100, 0},
		{"one answer in 100 takes 200 ms", 100, 200 * time.Millisecond},
		{"nothing holds the sockets", 0, 0},
	} {
		b.Run(row.name, func(b *testing.B) {
			s := newService(b, row.room, row.slow)
			if err := s.End(syscall.SIGTERM); err != nil { // it saves its snapshot of the cluster
				b.Errorf("ended with %v", err)
			}
			s.Start()
			tally := s.tally(2000, func() {
				for b.Loop() {
					// Another process sends the signal. When this process did, its timers fired at
					// the same moment and queries left together with the signal.
					killer := exec.Command("sh", "-c", `sleep 0.6; kill -KILL "$0"`, fmt.Sprint(s.PID()))
					if err := killer.Run(); err != nil {
						b.Fatal(err)
					}
					s.kill()
					time.Sleep(100 * time.Millisecond) // RestartSec= of node-dns.service
					s.Start()
				}
			})
			for unit, n := range map[string]int{"asked": tally.Asked, "lost": tally.Lost, "wrong": tally.Wrong, "unanswered": s.unanswered} {
				b.ReportMetric(float64(n), unit)
			}
		})
	}
}

// name returns the FDNAME of a socket.
func (s *service) name(proto string, index int) string {
	return fmt.Sprintf("%s-%s-%d-%d", proto, s.at.Addr(), s.at.Port(), index)
}

// sockets returns the names of the sockets in the store: one for TCP, and one for UDP per receiver.
func (s *service) sockets() []string {
	names := []string{s.name("tcp", 0)}
	for index := range min(runtime.GOMAXPROCS(0), maxReceivers) {
		names = append(names, s.name("udp", index))
	}
	return names
}

func sameSet(a, b []string) bool {
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	return strings.Join(a, " ") == strings.Join(b, " ")
}

func (s *service) ask(name string) {
	s.t.Helper()
	if m := dnstest.Exchange(s.t, s.at, name, dns.TypeA); len(m.Answer) != 1 {
		s.t.Fatalf("%s: %v", name, m)
	}
}

// TestWarmCache: an orderly restart keeps the cache, SIGKILL does not, and cluster names come only
// from the API.
func TestWarmCache(t *testing.T) {
	s := newService(t, 100, 0)
	asked := func(after string, want int) {
		t.Helper()
		s.ask("www.example.")
		s.ask("web.shop.svc.cluster.local.")
		if got := s.site.QueriesFor("www.example.", dns.TypeA); got != want {
			t.Errorf("after %s: %d upstream queries, want %d", after, got, want)
		}
	}
	asked("the start", 1)
	for range 2 {
		if err := s.End(syscall.SIGTERM); err != nil {
			t.Errorf("ended with %v", err)
		}
		s.Start()
		asked("a restart", 1)
	}
	if err := s.End(syscall.SIGKILL); err == nil {
		t.Error("the daemon was not killed")
	}
	s.Start()
	asked("SIGKILL", 2)
}

// TestSmallStore: if the service manager has no room for the sockets, the daemon reports that and
// ends as without a store: it answers what it has received.
func TestSmallStore(t *testing.T) {
	s := newService(t, 1, 300*time.Millisecond)
	query := func() chan error {
		answered := make(chan error, 1)
		go func() {
			client := dns.Client{Timeout: 10 * time.Second}
			_, _, err := client.Exchange(new(dns.Msg).SetQuestion("n.slow.example.", dns.TypeA), s.at.String())
			answered <- err
		}()
		s.await("the query to be under way", func() bool { return s.slow.QueriesFor("n.slow.example.", dns.TypeA) > 0 })
		return answered
	}
	answered := query()
	if err := s.End(syscall.SIGTERM); err != nil {
		t.Errorf("ended with %v", err)
	}
	if err := <-answered; err != nil {
		t.Error(err)
	}
	if strings.Contains(s.Output(), "handed over") {
		t.Error("it hands over sockets that no process holds")
	}
}

// TestSocketUnits: sockets of socket units are served but not stored again, and those for an unused
// address are left alone.
func TestSocketUnits(t *testing.T) {
	s := newService(t, 100, 0)
	if err := s.End(syscall.SIGTERM); err != nil {
		t.Errorf("ended with %v", err)
	}
	for _, name := range s.sockets() {
		s.Forget(name)
	}
	const unit = "node-dns@127.0.0.1.socket"
	s.hold(unit, s.at)
	s.hold("node-dns@127.0.0.9.socket", netip.AddrPortFrom(netip.MustParseAddr("127.0.0.9"), s.at.Port()))
	want := s.Held()
	s.load(200, func() {
		for range 2 {
			s.Start()
			time.Sleep(100 * time.Millisecond)
			if err := s.End(syscall.SIGTERM); err != nil {
				t.Errorf("ended with %v", err)
			}
		}
		s.Start()
	})
	s.await("the cache to be taken", func() bool { return !slices.Contains(s.Held(), "cache") })
	if got := s.Held(); !sameSet(got, want) {
		t.Errorf("the service manager holds %q, want %q", got, want)
	}
}

// hold makes the manager hold sockets for an address.
func (s *service) hold(name string, at netip.AddrPort) {
	s.t.Helper()
	udp, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(at))
	if err != nil {
		s.t.Fatal(err)
	}
	defer udp.Close()
	tcp, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(at))
	if err != nil {
		s.t.Fatal(err)
	}
	defer tcp.Close()
	for _, socket := range []syscall.Conn{udp, tcp} {
		c, err := socket.SyscallConn()
		if err == nil {
			err = c.Control(func(fd uintptr) { s.Hold(name, int(fd)) })
		}
		if err != nil {
			s.t.Fatal(err)
		}
	}
}

// TestHeirlooms: inherited files that are damaged, unknown or no longer needed are closed, each
// with one log line. The query log of earlier versions is closed without one.
func TestHeirlooms(t *testing.T) {
	t.Parallel()
	s := newService(t, 100, 0)
	if err := s.End(syscall.SIGTERM); err != nil {
		t.Errorf("ended with %v", err)
	}
	kept := s.sockets()
	s.Forget("cache")
	for _, name := range []string{"cache", "queries-in-flight", "something"} {
		fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
		if err == nil {
			_, err = unix.Write(fd, []byte("damaged"))
		}
		if err != nil {
			t.Fatal(err)
		}
		s.Hold(name, fd)
		unix.Close(fd)
	}
	gone := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.9"), s.at.Port())
	s.hold(fmt.Sprintf("udp-127.0.0.9-%d-0", gone.Port()), gone)
	before := strings.Count(s.Output(), "\n")
	s.Start()
	s.ask("www.example.")
	log := strings.Join(strings.Split(s.Output(), "\n")[before:], "\n")
	for name, want := range map[string]int{"cache": 1, "queries-in-flight": 0, "something": 1} {
		if got := strings.Count(log, `msg="cannot use a file that the service manager kept" name=`+name); got != want {
			t.Errorf("%s: %d lines in the log, want %d", name, got, want)
		}
	}
	s.await("the rest to be let go", func() bool { return sameSet(s.Held(), kept) })
}
