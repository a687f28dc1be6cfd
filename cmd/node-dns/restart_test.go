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

// service is a node-dns that a service manager keeps running.
type service struct {
	*lab.Manager
	t    testing.TB
	root string
	at   netip.AddrPort
	site *dnstest.Server // knows every name
	slow *dnstest.Server // knows every name below slow.example, after a while

	longest time.Duration // that a start took

	loading    *dnstest.Loading // what tally asks
	unanswered int              // questions without an answer when the daemon was killed
}

// kill ends the daemon by SIGKILL. A question that it has read and not answered has no answer by then, and is lost.
func (s *service) kill() {
	s.t.Helper()
	if err := s.End(syscall.SIGKILL); err == nil {
		s.t.Error("it was not killed")
	}
	s.unanswered += s.loading.Unanswered()
}

// Start is the Manager's.
func (s *service) Start() {
	s.t.Helper()
	begun := time.Now()
	s.Manager.Start()
	s.longest = max(s.longest, time.Since(begun))
}

// newService starts node-dns with a cluster, an upstream nameserver, and one that takes so long.
func newService(t testing.TB, room int, slow time.Duration) *service {
	t.Helper()
	return newServiceAt(t, room, slow, "unix:path=/nowhere")
}

// newServiceAt is newService with a system bus.
func newServiceAt(t testing.TB, room int, slow time.Duration, bus string) *service {
	t.Helper()
	s := &service{
		t: t, root: lab.ShortDir(t),
		site: dnstest.NewServer(t, dnstest.MixedSite), slow: dnstest.NewServer(t, dnstest.MixedSlow),
	}
	s.slow.SetFaults(dnstest.Faults{Delay: slow})
	api := kubetest.NewServer(t)
	s.at = dnstest.FreePort(t) // last: one of the servers above once got the port
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
		s.t.Fatalf("waited in vain for %s", what)
	}
}

// Starts that take longer than this are this machine's, which has too much to do: a second's questions have room in the sockets as the
// kernel gives it without being asked (net.core.rmem_max), and clients wait for 5 s.
const (
	roomLasts   = time.Second
	clientsStay = 4 * time.Second
)

// load asks while something happens, and wants every answer, but those that a kill may have lost, and those that a start was too
// slow for.
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
		s.t.Errorf("not all were answered as they should be: %d may be lost; the longest start took %v", may, s.longest)
	}
}

// tally asks while something happens.
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
	s.t.Logf("%v; %d found no room at the server", tally, dnstest.SocketDrops(s.at.Port()))
	return tally
}

// TestRestarts: no query is lost or answered wrongly while the daemon is restarted ten times.
func TestRestarts(t *testing.T) {
	s := newService(t, 100, 150*time.Millisecond)
	s.load(300, func() {
		for range 10 {
			if err := s.End(syscall.SIGTERM); err != nil {
				t.Errorf("it ended by %v", err)
			}
			s.Start()
			time.Sleep(300 * time.Millisecond) // a life in which the slow nameserver can answer
		}
	})
	if got, want := s.Held(), s.sockets(); !sameSet(got, want) {
		t.Errorf("the service manager holds %q, expected %q", got, want)
	}
}

// TestRestartWithoutUpstream: when the upstream nameservers are silent, a daemon that is restarted answers what it has received: with a
// stale answer, or with SERVFAIL.
func TestRestartWithoutUpstream(t *testing.T) {
	s := newService(t, 100, 0)
	fading := dnstest.NewServer(t, "*. 1 IN A 192.0.2.82\n")
	s.write("/etc/node-dns/node-dns.yaml", "routes: [{domain: fading.example, servers: ["+fading.Addr().String()+"]}]\n")
	restart := func() {
		if err := s.End(syscall.SIGTERM); err != nil {
			t.Errorf("it ended by %v", err)
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

// job is what systemd is about to do with the service, as it tells over the bus (org.freedesktop.systemd1(5)).
type job struct{ kind string }

const unitPath, jobPath = dbus.ObjectPath("/org/freedesktop/systemd1/unit/node_2ddns_2eservice"), dbus.ObjectPath("/org/freedesktop/systemd1/job/1")

// GetUnit is a method of org.freedesktop.systemd1.Manager.
func (j job) GetUnit(string) (dbus.ObjectPath, *dbus.Error) { return unitPath, nil }

// Get is a method of org.freedesktop.DBus.Properties.
func (j job) Get(_, property string) (dbus.Variant, *dbus.Error) {
	if property == "JobType" {
		return dbus.MakeVariant(j.kind), nil
	}
	return dbus.MakeVariant(struct {
		ID   uint32
		Path dbus.ObjectPath
	}{1, jobPath}), nil
}

// systemdWith is a bus where systemd tells of a job.
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

// TestStopAndStart: a daemon that is stopped for good hands nothing over, and one that is restarted does; whatever is asked until
// another is started, nothing is answered wrongly.
func TestStopAndStart(t *testing.T) {
	for kind, handsOver := range map[string]bool{"stop": false, "restart": true} {
		t.Run(kind, func(t *testing.T) {
			s := newServiceAt(t, 100, 50*time.Millisecond, systemdWith(t, kind))
			tally := s.tally(300, func() {
				for range 3 {
					if err := s.End(syscall.SIGTERM); err != nil {
						t.Errorf("it ended by %v", err)
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
				t.Error("not all were answered as they should be")
			}
			if got := strings.Contains(s.Output(), "handed over"); got != handsOver {
				t.Errorf("it hands over: %v", got)
			}
		})
	}
}

// TestKills: when the daemon is killed twenty times, no query is answered wrongly, and none is lost but what it had read by then.
func TestKills(t *testing.T) {
	s := newService(t, 100, 100*time.Millisecond)
	if err := s.End(syscall.SIGTERM); err != nil { // it leaves what it knows of the cluster
		t.Errorf("it ended by %v", err)
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

// BenchmarkKills counts the queries that SIGKILL loses, at 2,000 a second. docs/explanation/faults.md has the numbers for -benchtime 100x.
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
			if err := s.End(syscall.SIGTERM); err != nil { // it leaves what it knows of the cluster
				b.Errorf("it ended by %v", err)
			}
			s.Start()
			tally := s.tally(2000, func() {
				for b.Loop() {
					// Another process sends the signal. When this one did, questions left together with it: its timers fire then.
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

// name is the FDNAME of one of the sockets.
func (s *service) name(proto string, index int) string {
	return fmt.Sprintf("%s-%s-%d-%d", proto, s.at.Addr(), s.at.Port(), index)
}

// sockets are the names of those that the manager holds: one for TCP, and one for UDP for each receiver.
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

// TestWarmCache: an orderly restart keeps what is remembered, SIGKILL does not; and the cluster's names are the API's alone.
func TestWarmCache(t *testing.T) {
	s := newService(t, 100, 0)
	asked := func(after string, want int) {
		t.Helper()
		s.ask("www.example.")
		s.ask("web.shop.svc.cluster.local.")
		if got := s.site.QueriesFor("www.example.", dns.TypeA); got != want {
			t.Errorf("after %s the upstream was asked %d times, expected %d", after, got, want)
		}
	}
	asked("the start", 1)
	for range 2 {
		if err := s.End(syscall.SIGTERM); err != nil {
			t.Errorf("it ended by %v", err)
		}
		s.Start()
		asked("a restart", 1)
	}
	if err := s.End(syscall.SIGKILL); err == nil {
		t.Error("it was not killed")
	}
	s.Start()
	asked("SIGKILL", 2)
}

// TestSmallStore: a daemon whose sockets the service manager has no room for says so, and ends as one without any does: it
// answers what it has received.
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
		t.Errorf("it ended by %v", err)
	}
	if err := <-answered; err != nil {
		t.Error(err)
	}
	if strings.Contains(s.Output(), "handed over") {
		t.Error("it hands over what nobody holds")
	}
}

// TestSocketUnits: the sockets of socket units are served, not stored a second time, and those of an address that nobody
// wants are let alone.
func TestSocketUnits(t *testing.T) {
	s := newService(t, 100, 0)
	if err := s.End(syscall.SIGTERM); err != nil {
		t.Errorf("it ended by %v", err)
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
				t.Errorf("it ended by %v", err)
			}
		}
		s.Start()
	})
	s.await("the cache to be taken", func() bool { return !slices.Contains(s.Held(), "cache") })
	if got := s.Held(); !sameSet(got, want) {
		t.Errorf("the service manager holds %q, expected %q", got, want)
	}
}

// hold has the manager hold sockets at an address.
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

// TestHeirlooms: what is damaged, unknown or wanted no more is let go, each with one line in the log; and with no line the log of
// queries that earlier versions kept.
func TestHeirlooms(t *testing.T) {
	s := newService(t, 100, 0)
	if err := s.End(syscall.SIGTERM); err != nil {
		t.Errorf("it ended by %v", err)
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
		if got := strings.Count(log, `msg="not taking over what the service manager held" name=`+name); got != want {
			t.Errorf("%s: %d lines in the log, expected %d", name, got, want)
		}
	}
	s.await("the rest to be let go", func() bool { return sameSet(s.Held(), kept) })
}
