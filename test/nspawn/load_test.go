package nspawn

import (
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/internal/test/kubetest"
)

// busy is a node under constant load. The test itself simulates its upstream nameservers, its
// cluster and its clients.
type busy struct {
	*node
	slow *dnstest.Server

	loading    *dnstest.Loading // the load of during
	unanswered int              // queries without an answer at the time of a signal to the daemon
}

// Addresses of the test's own servers.
const (
	loadSite = "10.77.0.60"
	loadSlow = "10.77.0.61"
)

// loadPods returns the pods that send queries.
func loadPods() []netip.Addr {
	var pods []netip.Addr
	for addr := netip.MustParseAddr(podIP); len(pods) < 8; {
		addr = addr.Next()
		pods = append(pods, addr)
	}
	return pods
}

const loadConfig = `upstreams: [` + loadSite + `]
routes: [{domain: slow.example, servers: [` + loadSlow + `]}]
`

func newBusyNode(t *testing.T) *busy {
	t.Helper()
	return makeBusy(newLeasedNode(t))
}

// makeBusy sets up the load on a node where the service is not enabled yet.
func makeBusy(n *node) *busy {
	n.t.Helper()
	t, b := n.t, &busy{node: n}
	b.l.Veth("site0", b.lan, "site1")
	b.lan.Run("ip", "link", "set", "site1", "master", "lan0")
	b.l.Addr("site0", loadSite+"/24", loadSlow+"/24")
	b.addLoadPods(nodeIP)
	at := func(addr string) netip.AddrPort { return netip.AddrPortFrom(netip.MustParseAddr(addr), 53) }
	site, err := dnstest.StartAt(at(loadSite), dnstest.MixedSite)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(site.Close)
	if b.slow, err = dnstest.StartAt(at(loadSlow), dnstest.MixedSlow); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.slow.Close)
	b.slow.SetFaults(dnstest.Faults{Delay: 200 * time.Millisecond})
	api := kubetest.NewServerAt(t, loadSite+":0")
	api.Apply(kubetest.Shop(dnstest.MixedService))
	b.WriteFile("/etc/node-dns/node-dns.yaml", loadConfig, 0o644)
	b.WriteFile("/etc/node-dns/kubeconfig", string(api.Kubeconfig()), 0o644)
	b.Run("systemctl", "enable", "--now", "node-dns.service")
	b.awaitPointed()
	b.Await("the cluster to be read", func() bool {
		out, err := b.Try("node-dns", "status")
		return err == nil && strings.Contains(out, "synced")
	})
	b.awaitApplied()
	return b
}

// addLoadPods gives the test the addresses of loadPods, and a route through the node to a server.
func (n *node) addLoadPods(server string) {
	n.t.Helper()
	n.l.Veth("load0", n.pods, "load1")
	n.pods.Run("ip", "link", "set", "load1", "master", "pod0")
	for _, pod := range loadPods() {
		n.l.Addr("load0", pod.String()+"/24")
	}
	n.l.Run("ip", "route", "add", server+"/32", "via", podGateway)
}

// signal sends a signal to the daemon and waits until it no longer runs. On a busy machine, a
// thread in recvmmsg(2) may return later with a query that was sent after the signal. A query that
// the daemon has read but not answered by then is lost.
func (b *busy) signal(name string) {
	b.t.Helper()
	pid := b.property("node-dns.service", "MainPID")
	b.Run("systemctl", "kill", "--kill-who=main", "--signal="+name, "node-dns.service")
	b.Await("the daemon to run no more", func() bool {
		threads, err := b.Try("sh", "-c", "cat /proc/"+pid+"/task/*/stat")
		return err != nil || !running.MatchString(threads)
	})
	b.unanswered += b.loading.Unanswered()
}

// running matches a thread in proc_pid_stat(5) that is neither stopped nor dead.
var running = regexp.MustCompile(`(?m)^\d+ \(.*\) [RSD] `)

// loadPatience bounds the wait for an answer. A stub resolver waits 5 s, and the slowest answer
// here takes up to 3.5 s, because a hung daemon is killed after 3 s. The rest allows for a machine
// that stands still for seconds.
const loadPatience = 15 * time.Second

// during sends queries while happens runs. Every answer must arrive in time and be correct, except
// for those that a signal may have lost.
func (b *busy) during(rate int, happens func()) {
	b.t.Helper()
	loading, err := dnstest.Load{Server: netip.MustParseAddrPort(nodeIP + ":53"), Rate: rate, Asks: dnstest.Mixed(), Clients: loadPods(), Patience: loadPatience}.Start()
	if err != nil {
		b.t.Fatal(err)
	}
	b.loading, b.unanswered = loading, 0
	before := b.drops()
	time.Sleep(500 * time.Millisecond)
	happens()
	time.Sleep(500 * time.Millisecond)
	tally := loading.Stop()
	dropped := b.drops() - before
	b.t.Logf("%d a second: %v; %d unanswered at the signals; %d dropped at the node", rate, tally, b.unanswered, dropped)
	may := b.unanswered
	if tally.Worst > roomLasts {
		may += dropped
	}
	if tally.Lost > may || tally.Wrong > 0 {
		b.t.Errorf("got %d lost queries, want at most %d, and %d wrong answers", tally.Lost, may, tally.Wrong)
	}
}

// roomLasts is how long the node's sockets can buffer the queries of the busiest test while no
// process reads them. A restart takes a third of that, unless the machine stands still.
const roomLasts = time.Second

// drops returns the number of datagrams that were dropped at full sockets of port 53.
func (b *busy) drops() (n int) {
	b.t.Helper()
	for count := range strings.FieldsSeq(b.Run("awk", `$2 ~ /:0035$/ {print $NF}`, "/proc/net/udp")) {
		drops, err := strconv.Atoi(count)
		if err != nil {
			b.t.Fatal(err)
		}
		n += drops
	}
	return n
}

// awaitRestart waits until systemd has restarted the service that many times.
func (b *busy) awaitRestart(n int) {
	b.t.Helper()
	b.Await(fmt.Sprintf("restart %d", n), func() bool {
		return b.restarts() >= n && b.property("node-dns.service", "SubState") == "running"
	})
}

// TestRestartUnderLoad: planned restarts lose no queries, and the cache stays warm.
func TestRestartUnderLoad(t *testing.T) {
	b := newBusyNode(t)
	b.during(5000, func() { b.Run("systemctl", "restart", "node-dns.service") })
	b.during(500, func() {
		for range 10 {
			b.Run("systemctl", "restart", "node-dns.service")
		}
	})
	if log := b.Journal("--unit=node-dns.service"); strings.Count(log, "handed over") != 11 || strings.Count(log, "took over the cache") != 11 {
		t.Error("not all of 11 restarts passed the sockets on")
	}
}

// TestKillUnderLoad: neither SIGKILL, even twenty times in ten seconds, nor a hung daemon that its
// watchdog ends loses queries, except those that the daemon has read but not answered.
func TestKillUnderLoad(t *testing.T) {
	b := newBusyNode(t)
	b.Run("systemctl", "restart", "node-dns.service") // this saves the cluster's state
	b.during(5000, func() {
		b.signal("KILL")
		b.awaitRestart(1)
	})
	b.during(200, func() {
		for i := range 20 {
			b.signal("KILL")
			b.awaitRestart(2 + i)
			time.Sleep(300 * time.Millisecond) // lets the slow nameserver answer before the next signal
		}
	})
	b.during(200, func() {
		b.signal("STOP")
		b.awaitRestart(22)
	})
}

// TestAddressUnderLoad: when an address is removed, only its sockets are closed. When it is back,
// it is served again.
func TestAddressUnderLoad(t *testing.T) {
	const other = "10.77.0.99"
	b := newBusyNode(t)
	b.WriteFile("/etc/node-dns/node-dns.yaml", loadConfig+"listen: all\n", 0o644)
	// held reports whether systemd holds the expected number of listening sockets.
	held := func(others bool) bool {
		sockets := strings.Count(b.Run("ss", "-lntuH", "sport", "=", ":53"), "\n")
		theirs := strings.Count(b.Run("ss", "-lntuH", "src", other+":53"), "\n") >= 2 // UDP and TCP
		return sockets > 2 && theirs == others && b.property("node-dns.service", "NFileDescriptorStore") == strconv.Itoa(sockets)
	}
	b.Await("all sockets to be held", func() bool { return held(false) })
	served := func() bool {
		out, err := b.pods.Try("dig", "+short", "+tries=1", "+timeout=1", "@"+other, "hot1.example")
		return err == nil && out == "192.0.2.80\n"
	}
	b.during(1000, func() {
		for range 3 {
			b.Run("ip", "addr", "add", other+"/24", "dev", "eth0")
			b.Await("the other address to be served", served)
			b.Await("its sockets to be held", func() bool { return held(true) })
			b.Run("systemctl", "restart", "node-dns.service")
			if !served() {
				t.Error("the other address is not served after a restart")
			}
			b.Run("ip", "addr", "del", other+"/24", "dev", "eth0")
			b.Await("its sockets to be let go", func() bool { return held(false) })
		}
	})
}
