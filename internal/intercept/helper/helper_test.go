package helper

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/intercept"
	"github.com/node-dns/node-dns/internal/test/golden"
	"github.com/node-dns/node-dns/internal/test/lab"
)

func TestMain(m *testing.M) { lab.Main(m, lab.Build("./cmd/node-dns-intercept")) }

const cluster4, cluster6 = "10.96.0.10", "fd00::a"

// TestRules shows the kernel's view of the rules, in both modes and families.
func TestRules(t *testing.T) {
	lab.New(t)
	lab.Need(t, "nft")
	table, err := openTable()
	if err != nil {
		t.Fatal(err)
	}
	defer table.close()
	if !table.owned || table.sockets != boundSockets {
		t.Errorf("the kernel owns the table: %v, tells of sockets: %v", table.owned, table.sockets)
	}
	addr := netip.MustParseAddr
	for _, test := range []struct {
		name string
		list []served
	}{
		{"none", nil},
		{"local", []served{{addr(cluster4), intercept.Local, netip.Addr{}}, {addr(cluster6), intercept.Local, netip.Addr{}}}},
		{"translated", []served{{addr(cluster4), intercept.Translated, addr("10.0.0.5")}, {addr(cluster6), intercept.Translated, addr("fd01::5")}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if err := table.set(test.list); err != nil {
				t.Fatal(err)
			}
			var local []netip.Addr
			for _, s := range test.list {
				if s.mode == intercept.Local {
					local = append(local, s.addr)
				}
			}
			if err := setReplies(local, local); err != nil {
				t.Fatal(err)
			}
			got := ruleset(t)
			if len(local) > 0 {
				got += listed(t, repliesName)
			}
			golden.Check(t, filepath.Join("testdata", test.name+".nft"), got)

			// On older kernels, the rules are the same but for the sockets.
			want := ruleset(t)
			defer func() { table.sockets = boundSockets }()
			for _, old := range []struct {
				sockets sockets
				lacks   string // regular expression
			}{{anySockets, ".* socket wildcard 1 return\n"}, {noSockets, "socket transparent <= 1 "}} {
				table.sockets = old.sockets
				if err := table.set(test.list); err != nil {
					t.Fatal(err)
				}
				want = regexp.MustCompile(old.lacks).ReplaceAllString(want, "")
				if got := ruleset(t); got != want {
					t.Errorf("with sockets %v:\n%s", old.sockets, got)
				}
			}
		})
	}
	if out, err := exec.Command("nft", "list", "tables").CombinedOutput(); err != nil || strings.Contains(string(out), "trial") {
		t.Errorf("a table is left: %v\n%s", err, out)
	}
}

// ruleset returns the table as nft prints it, without the name of the owner's program.
func ruleset(t *testing.T) string {
	t.Helper()
	return listed(t, tableName)
}

func listed(t *testing.T, table string) string {
	t.Helper()
	out, err := exec.Command("nft", "list", "table", "inet", table).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	first, rest, _ := strings.Cut(string(out), "\n")
	first, _, _ = strings.Cut(first, " # ")
	return first + "\n" + rest
}

// world is a host with a nameserver at an address, and the helper.
type world struct {
	t      *testing.T
	lab    *lab.Lab
	root   string
	silent atomic.Bool
	name   atomic.Pointer[string] // what the nameserver calls itself
	helper *lab.Process
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, root: t.TempDir()} // removed after the programs that use it have ended
	w.lab = lab.New(t)
	w.call("node-dns 0.9.0")
	for _, dir := range []string{filepath.Dir(intercept.RequestFile(w.root)), filepath.Dir(intercept.StateFile(w.root))} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

func (w *world) call(name string) { w.name.Store(&name) }

// request writes the request file for these addresses. Without an address it removes the file.
func (w *world) request(addrs ...string) {
	w.t.Helper()
	w.requestAt("", addrs...)
}

// requestAt is request for a host where node-dns also answers at node, if that is not "". Queries
// are then translated.
func (w *world) requestAt(node string, addrs ...string) {
	w.t.Helper()
	path := intercept.RequestFile(w.root)
	if len(addrs) == 0 {
		if err := os.Remove(path); err != nil {
			w.t.Fatal(err)
		}
		return
	}
	var r intercept.Request
	if node != "" {
		r.Nodes, r.Translate = []netip.Addr{netip.MustParseAddr(node)}, true
	}
	for _, addr := range addrs {
		r.Addrs = append(r.Addrs, netip.MustParseAddr(addr))
	}
	if err := os.WriteFile(path, r.Format(), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) start(flags ...string) {
	w.t.Helper()
	w.helper = w.lab.Start(lab.Command{Argv: append([]string{lab.Binary(w.t, "node-dns-intercept"), "run", "--root", w.root}, flags...)})
}

// serve starts the nameserver as soon as the helper has made the address local.
func (w *world) serve(addr string) {
	w.t.Helper()
	w.serveAs(addr, func() string { return *w.name.Load() })
}

// serveAs is serve for a nameserver with another name. It listens on all addresses if addr is "".
// end ends it.
func (w *world) serveAs(addr string, name func() string) (end func()) {
	w.t.Helper()
	return w.serveOn(addr, "53", name)
}

// serveOn is serveAs on any port.
func (w *world) serveOn(addr, port string, name func() string) (end func()) {
	w.t.Helper()
	handler := dns.HandlerFunc(func(rw dns.ResponseWriter, q *dns.Msg) {
		if w.silent.Load() {
			return
		}
		m := new(dns.Msg).SetReply(q)
		m.Answer = []dns.RR{&dns.TXT{Hdr: dns.RR_Header{Name: q.Question[0].Name, Rrtype: dns.TypeTXT, Class: dns.ClassCHAOS}, Txt: []string{name()}}}
		rw.WriteMsg(m) // the helper may be gone
	})
	// Programs at one address and at all addresses can share the port.
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
	}}
	udp, tcp := &dns.Server{Handler: handler}, &dns.Server{Handler: handler}
	w.await(addr+" is local", func() (ok bool) {
		var err error
		udp.PacketConn, err = config.ListenPacket(w.t.Context(), "udp", net.JoinHostPort(addr, port))
		return err == nil
	})
	var err error
	if tcp.Listener, err = config.Listen(w.t.Context(), "tcp", net.JoinHostPort(addr, port)); err != nil {
		w.t.Fatal(err)
	}
	var started, done sync.WaitGroup
	for _, server := range []*dns.Server{udp, tcp} {
		started.Add(1)
		server.NotifyStartedFunc = started.Done
		done.Go(func() { server.ActivateAndServe() })
	}
	started.Wait()
	end = sync.OnceFunc(func() { udp.Shutdown(); tcp.Shutdown(); done.Wait() })
	w.t.Cleanup(end)
	return end
}

func (w *world) await(what string, ok func() bool) {
	w.t.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			w.t.Fatalf("%s: not within 30 s; the helper says:\n%s", what, w.helper.Output())
		}
	}
}

func (w *world) awaitEnd(p *lab.Process) {
	w.t.Helper()
	w.await("the helper ends", func() bool { return !p.Running() })
}

// awaitState waits until the address is in this state, and the rules follow; why is a part of the
// reason. The file says that an address is on before its rules are there.
func (w *world) awaitState(addr string, on bool, why string) {
	w.t.Helper()
	w.await(addr+" is in the wanted state", func() bool { return w.hasState(addr, on, why) })
}

func (w *world) hasState(addr string, on bool, why string) bool {
	w.t.Helper()
	s, err := intercept.ReadState(intercept.StateFile(w.root))
	if err != nil || s == nil {
		return false
	}
	for _, a := range s.Addresses {
		if a.Address.String() == addr {
			return a.On == on && strings.Contains(a.Why, why) && strings.Contains(ruleset(w.t), addr) == on
		}
	}
	return false
}

// stopWithRules stops the helper with SIGSTOP while the rules of an address are in the kernel.
func (w *world) stopWithRules(addr string) {
	w.t.Helper()
	stopped := fmt.Sprintf("/proc/%d/stat", w.helper.PID())
	w.await("the helper stops with its rules", func() bool {
		w.helper.Signal(syscall.SIGCONT)
		w.awaitState(addr, true, "")
		w.helper.Signal(syscall.SIGSTOP)
		w.await("the helper stops", func() bool {
			data, err := os.ReadFile(stopped)
			return err == nil && strings.Contains(string(data), ") T ")
		})
		return strings.Contains(ruleset(w.t), addr) // a busy machine may be too slow for the last probe
	})
}

func hasTable(t *testing.T) bool {
	t.Helper()
	out, err := exec.Command("nft", "list", "tables").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return strings.Contains(string(out)+"\n", "inet "+tableName+"\n")
}

// TestFollowsNodeDNS: the rules are there exactly while node-dns itself answers at the address.
func TestFollowsNodeDNS(t *testing.T) {
	w := newWorld(t)
	w.request(cluster4, cluster6)
	w.start()
	w.serve(cluster4)
	w.awaitState(cluster4, true, "")
	w.awaitState(cluster6, false, "does not listen on fd00::a")
	w.serve(cluster6)
	w.awaitState(cluster6, true, "")

	w.silent.Store(true)
	w.awaitState(cluster4, false, "does not answer")
	w.silent.Store(false)
	w.awaitState(cluster4, true, "")

	w.call("CoreDNS-1.12.1")
	w.awaitState(cluster4, false, "another nameserver answers at 10.96.0.10: CoreDNS-1.12.1")
	w.call("node-dns 0.9.0")
	w.awaitState(cluster4, true, "")

	if out, err := exec.Command("ip", "address", "del", cluster4+"/32", "dev", linkOf(t, cluster4)).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	w.await("the removed address is back", func() bool { return linkOf(t, cluster4) != "" })
	w.awaitState(cluster4, true, "")

	w.request(cluster6)
	w.await("an address that is not requested any more is not local", func() bool { return linkOf(t, cluster4) == "" })
	w.awaitState(cluster6, true, "")
	w.request()
	w.awaitEnd(w.helper)
	if out, err := exec.Command("nft", "list", "table", "inet", repliesName).CombinedOutput(); err == nil {
		t.Errorf("the helper left behind:\n%s", out)
	}
	if hasTable(t) || linkOf(t, cluster6) != "" {
		t.Errorf("the helper left behind: table %v, address on %q", hasTable(t), linkOf(t, cluster6))
	}
	if _, err := os.Stat(intercept.StateFile(w.root)); !os.IsNotExist(err) {
		t.Errorf("the state file is left: %v", err)
	}
}

// TestLinger: an address stays local for lingerFor after the daemon withdrew its request, however
// long ago the last look was. It was removed at once if that was longer ago, and before its rules:
// this lost 54 of 15,760 queries on a busy machine.
func TestLinger(t *testing.T) {
	w := newWorld(t)
	w.request(cluster4)
	h := &helper{Config: Config{Root: w.root, Log: slog.New(slog.DiscardHandler)}}
	look := func() {
		t.Helper()
		h.looked = time.Time{}
		if err := h.look(); err != nil {
			t.Fatal(err)
		}
	}
	h.follow()
	look()
	h.held[0].wanted = h.held[0].wanted.Add(-lookAgain) // the next look would be now
	w.request()
	h.follow()
	if look(); linkOf(t, cluster4) == "" {
		t.Error("the address is gone as soon as its request")
	}
	h.held[0].wanted = h.held[0].wanted.Add(-lingerFor)
	if look(); linkOf(t, cluster4) != "" {
		t.Error("the address stays")
	}
}

// TestLeftAddress: an address that a killed helper left on its link goes if the next helper's
// request does not have it, as after a change of the Service's address. It stayed for good.
func TestLeftAddress(t *testing.T) {
	w := newWorld(t)
	command(t, "ip", "link", "add", linkName, "type", "bridge") // this kernel may lack dummy links
	for _, left := range []string{"10.96.0.99/32", "fd00::99/128", cluster4 + "/32"} {
		command(t, "ip", "address", "add", left, "dev", linkName, "nodad")
	}
	w.request(cluster4)
	h := &helper{Config: Config{Root: w.root, Log: slog.New(slog.DiscardHandler)}}
	h.follow()
	for i, want := range []string{linkName, ""} { // they stay for lingerFor: the daemon may still answer
		h.looked = time.Time{}
		if err := h.look(); err != nil {
			t.Fatal(err)
		}
		for _, left := range []string{"10.96.0.99", "fd00::99"} {
			if got := linkOf(t, left); got != want {
				t.Errorf("after look %d, %s is on %q, want %q", i+1, left, got, want)
			}
		}
		if got := linkOf(t, cluster4); got != linkName {
			t.Errorf("after look %d, the requested address is on %q", i+1, got)
		}
		for j := range h.held {
			h.held[j].wanted = h.held[j].wanted.Add(-lingerFor)
		}
	}
}

func linkOf(t *testing.T, addr string) string {
	t.Helper()
	at, err := places([]netip.Addr{netip.MustParseAddr(addr)})
	if err != nil {
		t.Fatal(err)
	}
	return at[netip.MustParseAddr(addr)].link
}

// TestKilled: however the helper ends, the kernel removes the rules. The next helper continues.
func TestKilled(t *testing.T) {
	w := newWorld(t)
	w.request(cluster4)
	w.start()
	w.serve(cluster4)
	w.awaitState(cluster4, true, "")
	second := w.lab.Start(lab.Command{Argv: []string{lab.Binary(t, "node-dns-intercept"), "run", "--root", w.root}})
	w.awaitEnd(second)
	if !strings.Contains(second.Output(), "already runs") {
		t.Errorf("a second helper: %s", second.Output())
	}
	w.helper.Kill()
	w.await("the table of a killed helper is gone", func() bool { return !hasTable(t) })
	if !strings.Contains(listed(t, repliesName), "ip saddr "+cluster4) {
		t.Errorf("responses to received queries would be tracked:\n%s", listed(t, repliesName))
	}
	w.start()
	intercepts := func() bool { return hasTable(t) && strings.Contains(ruleset(t), cluster4) }
	withdrawn := func() int { return strings.Count(w.helper.Output(), "no longer intercepting") }
	for isKept := false; !isKept; {
		w.await("the next helper intercepts", intercepts)
		before := withdrawn()
		if out, err := exec.Command("nft", "flush", "ruleset").CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if isKept = intercepts(); isKept {
			continue
		}
		// On a busy machine, an answer may come too late. The helper then tells that.
		w.await("the rules are back", intercepts)
		if withdrawn() == before {
			t.Fatal("another program's nft flush ruleset removed the rules")
		}
	}
}

// TestBadRequest: a request that cannot be read counts as none, and says why. With --stay, the
// helper waits for the next one.
func TestBadRequest(t *testing.T) {
	w := newWorld(t)
	w.request(cluster4)
	w.start("--stay")
	w.serve(cluster4)
	w.awaitState(cluster4, true, "")
	if err := os.WriteFile(intercept.RequestFile(w.root), []byte("intercept 127.0.0.1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	w.await("the address is gone", func() bool { return linkOf(t, cluster4) == "" })
	w.request(cluster4)
	w.awaitState(cluster4, true, "")
	if !strings.Contains(w.helper.Output(), "127.0.0.1 is not a unicast address for pods") {
		t.Errorf("the helper does not say what is wrong:\n%s", w.helper.Output())
	}
}

// TestPacketFilter: a packet filter that drops queries for this host let them pass to the cluster's
// DNS pods. So they go there again. The same holds for one that drops what connection tracking does
// not know, as CIS's benchmarks have it for packets of this host: the helper's own queries passed,
// and no pod got an answer.
func TestPacketFilter(t *testing.T) {
	for _, test := range []struct{ name, filter, why string }{
		{"queries", `chain in { type filter hook input priority 0; iifname "pod0" drop; }`, filtered},
		{"untracked responses", `chain out { type filter hook output priority 0; policy drop; oifname "lo" accept; ct state new,established,related accept; }`, filteredResponses},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			lab.Need(t, "dig")
			pod := w.lab.Namespace("pod")
			w.lab.Veth("pod0", pod, "eth0")
			w.lab.Addr("pod0", "10.128.0.1/24")
			pod.Run("ip", "address", "add", "10.128.0.2/24", "dev", "eth0")
			pod.Run("ip", "route", "add", "default", "via", "10.128.0.1")
			w.request(cluster4)
			w.start()
			w.serve(cluster4)
			w.awaitState(cluster4, true, "")
			const queries = `for i in $(seq 40); do dig +tries=1 +timeout=1 @` + cluster4 + ` version.bind TXT CH & done; wait`
			if out, err := pod.Try("sh", "-c", queries); err != nil || strings.Count(out, "node-dns 0.9.0") != 40 {
				t.Fatalf("without a filter: %v\n%s", err, out)
			}
			w.awaitState(cluster4, true, "")
			command(t, "nft", "table inet site { "+test.filter+"; }")
			w.await("the helper notices the filter", func() bool {
				pod.Try("sh", "-c", queries) // lost; on a busy machine, more than once: new rules count from zero
				return w.hasState(cluster4, false, test.why)
			})
		})
	}
}

// TestClosedSocket: as soon as node-dns has no socket that receives the packets of a pod, the
// kernel lets them pass to kube-proxy's rules. It does not wait for the helper. Another program
// that listens on all addresses gets none of them.
func TestClosedSocket(t *testing.T) {
	for _, test := range []struct {
		name              string
		cluster, node, ip string // ip is the name of the family for nft
		beside            bool   // another program listens on all addresses
		why               string // the helper's reason
	}{
		{"IPv4", cluster4, "10.128.0.1", "ip", false, "does not listen"},
		{"IPv6", cluster6, "fd01::1", "ip6", false, "does not listen"},
		{"IPv4, beside a program at all addresses", cluster4, "10.128.0.1", "ip", true, "another nameserver answers"},
		{"IPv6, beside a program at all addresses", cluster6, "fd01::1", "ip6", true, "another nameserver answers"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			lab.Need(t, "dig", "nft")
			node := netip.MustParseAddr(test.node)
			length := fmt.Sprintf("/%d", node.BitLen()-8)
			pod := w.lab.Namespace("pod")
			w.lab.Veth("pod0", pod, "eth0")
			w.lab.Run("ip", "address", "add", test.node+length, "dev", "pod0", "nodad")
			pod.Run("ip", "address", "add", node.Next().String()+length, "dev", "eth0", "nodad")
			pod.Run("ip", "route", "add", "default", "via", test.node)
			command(t, "nft", fmt.Sprintf("table %s kube-proxy { chain services { type nat hook prerouting priority dstnat; %[1]s daddr %s meta l4proto { tcp, udp } th dport 53 dnat to %s; }; }", test.ip, test.cluster, test.node))
			ask := func(when, want string) {
				t.Helper()
				for _, network := range []string{"+notcp", "+tcp"} {
					if out, err := pod.Try("dig", network, "+short", "+tries=1", "+timeout=30", "@"+test.cluster, "version.bind", "TXT", "CH"); err != nil || out != `"`+want+"\"\n" {
						t.Errorf("%s, with %s got %q, %v, want %s", when, network, out, err, want)
					}
				}
			}
			w.serveAs(test.node, func() string { return "CoreDNS-1.12.1" })
			if test.beside {
				w.serveAs("", func() string { return "dnsmasq-2.90" })
			}
			ask("without node-dns", "CoreDNS-1.12.1")
			w.request(test.cluster)
			w.start()
			end := w.serveAs(test.cluster, func() string { return "node-dns 0.9.0" })
			w.stopWithRules(test.cluster)
			ask("with node-dns", "node-dns 0.9.0")
			end()
			ask("after its end", "CoreDNS-1.12.1")
			w.helper.Signal(syscall.SIGCONT)
			w.awaitState(test.cluster, false, test.why)
		})
	}
}

// TestRulesetFlushed: another program's nft flush ruleset removes the table that outlives the
// helper, which the helper restores within lookAgain. Until then, responses to a client that had
// queried the cluster's DNS pods from the same port were tracked, got another port, and were
// dropped.
func TestRulesetFlushed(t *testing.T) {
	w := newWorld(t)
	lab.Need(t, "dig", "nft")
	pod := w.lab.Namespace("pod")
	w.lab.Veth("pod0", pod, "eth0")
	w.lab.Addr("pod0", "10.128.0.1/24")
	pod.Run("ip", "address", "add", "10.128.0.2/24", "dev", "eth0")
	pod.Run("ip", "route", "add", "default", "via", "10.128.0.1")
	kubeProxy := func() {
		t.Helper()
		command(t, "nft", "table ip kube-proxy { chain services { type nat hook prerouting priority dstnat; ip daddr "+cluster4+" udp dport 53 dnat to 10.128.0.1; }; }")
	}
	ask := func(when, want string) {
		t.Helper()
		if out, err := pod.Try("dig", "-b", "10.128.0.2#40000", "+short", "+tries=1", "+timeout=30", "@"+cluster4, "version.bind", "TXT", "CH"); err != nil || out != `"`+want+"\"\n" {
			t.Errorf("%s, got %q, %v, want %s", when, out, err, want)
		}
	}
	kubeProxy()
	w.serveAs("10.128.0.1", func() string { return "CoreDNS-1.12.1" })
	ask("without node-dns", "CoreDNS-1.12.1")
	w.request(cluster4)
	w.start()
	w.serve(cluster4)
	w.stopWithRules(cluster4)
	ask("with node-dns", "node-dns 0.9.0")
	command(t, "nft", "flush", "ruleset")
	kubeProxy()
	ask("after nft flush ruleset", "node-dns 0.9.0")
}

// TestTwoHelpersOfAHost: the helper of a container waits for that of a package on the same host,
// and does not keep it from its table while nothing is requested.
func TestTwoHelpersOfAHost(t *testing.T) {
	w := newWorld(t)
	w.start("--stay")
	container := w.helper
	alive := func() bool {
		_, err := w.lab.Try(lab.Binary(t, "node-dns-intercept"), "alive", "--root", w.root)
		return err == nil
	}
	w.await("the container's helper is alive", alive)
	if hasTable(t) {
		t.Error("the container's helper has its table without a request")
	}

	own, theirs := w.root, t.TempDir()
	w.root = theirs
	for _, dir := range []string{filepath.Dir(intercept.RequestFile(theirs)), filepath.Dir(intercept.StateFile(theirs))} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	w.request(cluster4)
	w.start()
	packaged := w.helper
	w.serve(cluster4)
	w.awaitState(cluster4, true, "")

	w.root, w.helper = own, container
	w.request(cluster4)
	w.await("the container's helper waits", func() bool {
		return strings.Contains(container.Output(), "waiting until another node-dns-intercept of this host ends")
	})
	packaged.Kill()
	w.awaitState(cluster4, true, "")
	if n := strings.Count(container.Output(), "waiting until"); n != 1 {
		t.Errorf("the log says %d times that it waits:\n%s", n, container.Output())
	}
	w.await("the container's helper is alive", alive)
	container.Signal(syscall.SIGSTOP)
	w.await("the liveness probe notices that the helper hangs", func() bool { return !alive() })
}

// TestAlive: a helper is alive if it has touched its file a short time ago.
func TestAlive(t *testing.T) {
	root, now := t.TempDir(), time.Now().Truncate(time.Second) // some file systems keep no fractions
	path := intercept.AliveFile(root)
	if err := Alive(root, now); err == nil || !strings.Contains(err.Error(), "does not run") {
		t.Errorf("without the file: %v", err)
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		age  time.Duration
		want string
	}{{0, ""}, {aliveFor, ""}, {-time.Hour, ""}, {aliveFor + time.Second, "has done nothing for 6s"}} {
		if err := os.Chtimes(path, now, now.Add(-test.age)); err != nil {
			t.Fatal(err)
		}
		if err := Alive(root, now); (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("touched %v ago: got %v, want %q", test.age, err, test.want)
		}
	}
}
