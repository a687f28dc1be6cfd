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

// busy is a node whose clients never stop asking: its upstream nameservers, its cluster and its clients are the test's own.
type busy struct {
	*node
	slow *dnstest.Server

	loading    *dnstest.Loading // what during asks
	unanswered int              // questions without an answer when the daemon got a signal
}

// Addresses of the test itself.
const (
	loadSite = "10.77.0.60"
	loadSlow = "10.77.0.61"
)

// loadPods are the pods that ask.
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

// makeBusy makes one of a node where the service is not enabled yet.
func makeBusy(n *node) *busy {
	n.t.Helper()
	t, b := n.t, &busy{node: n}
	b.l.Veth("site0", b.lan, "site1")
	b.lan.Run("ip", "link", "set", "site1", "master", "lan0")
	b.l.Addr("site0", loadSite+"/24", loadSlow+"/24")
	b.l.Veth("load0", b.pods, "load1")
	b.pods.Run("ip", "link", "set", "load1", "master", "pod0")
	for _, pod := range loadPods() {
		b.l.Addr("load0", pod.String()+"/24")
	}
	b.l.Run("ip", "route", "add", nodeIP+"/32", "via", podGateway)
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

// signal sends a signal to the daemon, and waits until it runs no more: on a busy machine a thread that waited in recvmmsg(2) comes back
// later, with a question that was asked after the signal. One that it has read and not answered has no answer by then, and is lost.
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

// loadPatience is how long a question waits for its answer. A stub resolver waits 5 s, and here the worst answer takes up to 3.5 s: a
// daemon that hangs is ended after 3 s. The rest is for the machine, which may stand still for seconds.
const loadPatience = 15 * time.Second

// during asks while something happens, and wants every answer to come in time, and to be right, but for those that a signal may have
// lost.
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
	b.t.Logf("%d a second: %v; %d unanswered at the signals; at the node %d found no room", rate, tally, b.unanswered, dropped)
	may := b.unanswered
	if tally.Worst > roomLasts {
		may += dropped
	}
	if tally.Lost > may || tally.Wrong > 0 {
		b.t.Errorf("%d lost of %d that may be, and %d wrong", tally.Lost, may, tally.Wrong)
	}
}

// roomLasts is for how long the node's sockets have room for the questions of the busiest test, while nobody reads them. A restart takes a
// third of it, if the machine does not stand still.
const roomLasts = time.Second

// drops is how many datagrams have found no room in the sockets of port 53.
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

// awaitRestart waits until systemd has started the service again so many times.
func (b *busy) awaitRestart(n int) {
	b.t.Helper()
	b.Await(fmt.Sprintf("restart %d", n), func() bool {
		return b.restarts() >= n && b.property("node-dns.service", "SubState") == "running"
	})
}

// TestRestartUnderLoad: planned restarts lose no query, and the cache stays warm.
func TestRestartUnderLoad(t *testing.T) {
	b := newBusyNode(t)
	b.during(5000, func() { b.Run("systemctl", "restart", "node-dns.service") })
	b.during(500, func() {
		for range 10 {
			b.Run("systemctl", "restart", "node-dns.service")
		}
	})
	if log := b.Journal("--unit=node-dns.service"); strings.Count(log, "handed over") != 11 || strings.Count(log, "took over the cache") != 11 {
		t.Error("not each of 11 restarts was a hand-over")
	}
}

// TestKillUnderLoad: SIGKILL, twenty times in ten seconds too, and a daemon that hangs until its watchdog ends it lose no query but
// those that the daemon has read and not answered.
func TestKillUnderLoad(t *testing.T) {
	b := newBusyNode(t)
	b.Run("systemctl", "restart", "node-dns.service") // which keeps what is known of the cluster
	b.during(5000, func() {
		b.signal("KILL")
		b.awaitRestart(1)
	})
	b.during(200, func() {
		for i := range 20 {
			b.signal("KILL")
			b.awaitRestart(2 + i)
			time.Sleep(300 * time.Millisecond) // a life in which the slow nameserver can answer
		}
	})
	b.during(200, func() {
		b.signal("STOP")
		b.awaitRestart(22)
	})
}

// TestAddressUnderLoad: an address that goes takes its sockets along, and none of another; when it is back it is served.
func TestAddressUnderLoad(t *testing.T) {
	const other = "10.77.0.99"
	b := newBusyNode(t)
	b.WriteFile("/etc/node-dns/node-dns.yaml", loadConfig+"listen: all\n", 0o644)
	// held reports whether systemd holds the listening sockets, as many as there are to be.
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
