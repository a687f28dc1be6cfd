package vm

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/internal/test/vm"
)

// hostile is the address of a nameserver on the LAN that misbehaves as a test needs.
const hostile = "10.78.0.66"

// serveHostile starts that nameserver for the domain hostile.example, and gives the daemon a
// configuration.
func (g *guest) serveHostile(records, config string) *dnstest.Server {
	g.t.Helper()
	g.lan.Run("ip", "address", "add", hostile+"/24", "dev", "lan0")
	var server *dnstest.Server
	var err error
	at := netip.AddrPortFrom(netip.MustParseAddr(hostile), 53)
	if inside := g.lan.Inside(func() { server, err = dnstest.StartAt(at, records) }); inside != nil || err != nil {
		g.t.Fatalf("starting the hostile nameserver: %v, %v", inside, err)
	}
	g.t.Cleanup(server.Close)
	g.Run("printf 'routes: [{domain: hostile.example, servers: [" + hostile + "]}]\\n" + config + "' >/etc/node-dns/node-dns.yaml; systemctl reload node-dns")
	g.Await("the hostile nameserver to be queried", "node-dns servers | grep hostile.example | grep -q "+hostile)
	return server
}

// load sends queries below hostile.example, with the query's number in the name, from many
// addresses of the LAN.
func (g *guest) load(count, rate, window int, asks ...dnstest.Ask) *dnstest.Loading {
	g.t.Helper()
	var clients []netip.Addr
	for i := range 20 {
		addr := fmt.Sprintf("10.78.0.%d", 200+i)
		g.lan.Try("ip", "address", "add", addr+"/24", "dev", "lan0") // fails for a second load, harmlessly
		clients = append(clients, netip.MustParseAddr(addr))
	}
	l := dnstest.Load{
		Server: netip.AddrPortFrom(netip.MustParseAddr(nodeIP), 53), Rate: rate, Count: count, Window: window, Sockets: len(clients),
		Clients: clients, Asks: asks,
	}
	var loading *dnstest.Loading
	var err error
	if inside := g.lan.Inside(func() { loading, err = l.Start() }); inside != nil || err != nil {
		g.t.Fatalf("asking: %v, %v", inside, err)
	}
	return loading
}

// number runs a script that prints a number.
func (g *guest) number(script string) int {
	g.t.Helper()
	out := strings.TrimSpace(g.Run(script))
	n, err := strconv.Atoi(out)
	if err != nil {
		g.t.Fatalf("%s: %q is not a number", script, out)
	}
	return n
}

// TestMemoryMax: names with answers of 60 KiB fill a cache without a configured limit. The cache
// shrinks, the daemon stays below the unit's MemoryMax=, and no process is killed.
func TestMemoryMax(t *testing.T) {
	if testing.Short() {
		t.Skip("only the full lane runs it")
	}
	g := newServingNode(t, strictest(), true)
	text := strings.Repeat(` "`+strings.Repeat("x", 250)+`"`, 240)
	g.serveHostile("*.hostile.example. 3600 IN TXT"+text+"\n", "cacheSize: 1000000\\n")
	group := "/sys/fs/cgroup/system.slice/node-dns.service/"
	limit := g.number("cat " + group + "memory.max")
	if limit != 512<<20 {
		t.Errorf("got the limit %d", limit)
	}
	before := g.mainPID()
	// Over UDP the client is told to retry over TCP, but the cache still stores the complete
	// answer.
	t.Log(g.load(12000, 5000, 64, dnstest.Ask{Name: "n%d.hostile.example.", Type: dns.TypeTXT}).Wait())
	g.Await("the cache to shrink", "journalctl -q -o cat -u node-dns | grep -q 'the cache shrinks'")
	g.checkAnswers()
	peak, killed := g.number("cat "+group+"memory.peak"), g.Run("cat "+group+"memory.events")
	t.Logf("limit %d bytes, peak %d; memory.events:\n%s", limit, peak, killed)
	if !strings.Contains(killed, "oom_kill 0\n") || g.mainPID() != before {
		t.Errorf("the daemon was killed: pid %s, before %s", g.mainPID(), before)
	}
	g.checkDoctor("the load")
	g.checkDenials()
}

// TestOpenQuestions: a nameserver does not answer 10,000 concurrent queries but answers others. The
// daemon has a socket for each query, and still answers from its cache, from other servers, and at
// the control socket. A query stays open for 4 s, but an emulated machine sends only some hundred a
// second, so the clock of this machine waits for it.
func TestOpenQuestions(t *testing.T) {
	if testing.Short() {
		t.Skip("only the full lane runs it")
	}
	g := newGuestOf(t, vm.Config{Policy: strictest(), Calm: true}, true)
	g.install()
	g.serve()
	const alive = "alive.hostile.example."
	server := g.serveHostile("*.hostile.example. 3600 IN A 192.0.2.80\n"+alive+" 0 IN A 192.0.2.81\n", "")
	server.SetFaults(dnstest.Faults{Drop: true})
	server.SetFaultsFor(alive, dnstest.Faults{}) // queries to a server that answers nothing would all end at once
	pid := g.mainPID()
	if got := g.number("awk '/^Max open files/ { print $4 }' /proc/" + pid + "/limits"); got != 65536 {
		t.Errorf("the daemon may open %d files", got)
	}
	g.Run("systemd-run --quiet --unit=most sh -c 'most=0; while sleep 0.2; do n=$(ls /proc/" + pid + "/fd | wc -l); [ $n -le $most ] || echo $n >/run/most; [ $n -le $most ] || most=$n; done'")
	asks := slices.Repeat([]dnstest.Ask{{Name: "n%d.hostile.example.", Type: dns.TypeA, Want: "192.0.2.80"}}, 99)
	asking := g.load(40000, 500, 0, append(asks, dnstest.Ask{Name: alive, Type: dns.TypeA, Want: "192.0.2.81"})...)
	g.Await("10,000 open questions", "[ $(cat /run/most) -ge 10500 ]") // the listeners and other files are a few hundred
	g.checkAnswers()
	g.checkResolves()
	if out, _ := g.Try("node-dns status"); !strings.Contains(out, "hostile.example. via "+hostile) {
		t.Errorf("got the status\n%s", out)
	}
	t.Log(asking.Stop())
	g.checkAnswers()
	t.Logf("at most %d files were open", g.number("systemctl stop most; cat /run/most"))
	if out := g.Run("journalctl -q -o cat -u node-dns | grep -i 'too many open files' || true"); out != "" || g.mainPID() != pid {
		t.Errorf("files ran out: %s", out)
	}
	server.SetFaults(dnstest.Faults{})
	g.l.Await("the recovered nameserver to be queried", func() bool {
		out, err := g.lan.Try("dig", "+short", "+tries=1", "+timeout=5", "@"+nodeIP, "again.hostile.example")
		return err == nil && strings.TrimSpace(out) == "192.0.2.80"
	})
	g.checkDenials()
}
