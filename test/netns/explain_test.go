package netns

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"
	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/admin/doctor"
	"github.com/node-dns/node-dns/internal/resolvconf"
	"github.com/node-dns/node-dns/internal/sys/rawsock"
	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/internal/test/lab"
	"github.com/node-dns/node-dns/internal/test/manpage"
)

// wire captures the packets of a pod at the node's end of its link.
type wire struct {
	t  testing.TB
	fd int
}

// watchWire captures all packets of an interface from now on.
func watchWire(t testing.TB, name string) *wire {
	t.Helper()
	link, err := net.InterfaceByName(name)
	if err != nil {
		t.Fatal(err)
	}
	allProtocols := rawsock.NetworkOrder(unix.ETH_P_ALL) // packet(7)
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, int(allProtocols))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: allProtocols, Ifindex: link.Index}); err != nil {
		t.Fatal(err)
	}
	return &wire{t, fd}
}

// queries returns the names in the UDP queries since the last call, in the order of their first
// query, and the number of queries. All of them have arrived, because their senders have the
// answers.
func (w *wire) queries() (names []string, count int) {
	w.t.Helper()
	buf := make([]byte, 65536)
	for {
		n, from, err := unix.Recvfrom(w.fd, buf, 0)
		if err == unix.EAGAIN {
			return names, count
		}
		if err != nil {
			w.t.Fatal(err)
		}
		at, ok := from.(*unix.SockaddrLinklayer)
		if !ok || at.Pkttype == unix.PACKET_OUTGOING {
			continue
		}
		if name := questionIn(buf[:n]); name != "" {
			count++
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
}

// questionIn returns the qname of a query in an IPv4 UDP packet to port 53, or "" for other
// packets.
func questionIn(packet []byte) string {
	if len(packet) < 28 || packet[0]>>4 != 4 || packet[9] != unix.IPPROTO_UDP {
		return ""
	}
	udp := packet[int(packet[0]&0xf)*4:]
	m := new(dns.Msg)
	if len(udp) < 8 || udp[2] != 0 || udp[3] != 53 || m.Unpack(udp[8:]) != nil || m.Response || len(m.Question) != 1 {
		return ""
	}
	return strings.ToLower(m.Question[0].Name)
}

// explain returns the output of node-dns explain.
func (n *podNode) explain(args ...string) (e control.Explanation) {
	n.t.Helper()
	out, _ := n.l.Try(append([]string{lab.Binary(n.t, "node-dns"), "explain", "-o", "json"}, args...)...) // exit code 1 means that it found a problem, which it shows
	if err := json.Unmarshal([]byte(out), &e); err != nil {
		n.t.Fatalf("%v\n%s", err, out)
	}
	return e
}

// giveConf writes the pod's resolv.conf as explain predicts it for the kubelet.
func (n *podNode) giveConf(s control.Search) {
	n.t.Helper()
	text := ""
	for _, server := range s.Nameservers {
		text += "nameserver " + server + "\n"
	}
	text += "search " + strings.Join(s.Domains, " ") + "\noptions " + strings.Join(s.Options, " ") + "\n"
	n.l.WriteFile("/etc/netns/pod/resolv.conf", text)
}

// TestExplain compares explain with the queries that C libraries send with the resolv.conf that it
// predicts for a pod: the names, their order, the number of queries, and whether the name is found.
func TestExplain(t *testing.T) {
	for i, lib := range libraries[:2] {
		for _, on := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%v", lib.name, on), func(t *testing.T) { testExplain(t, lib, i, on) })
		}
	}
}

func testExplain(t *testing.T, lib library, index int, on bool) {
	program := lib.program(t)
	n := newPodNode(t, podCluster, podSite, fmt.Sprintf("autopath: %v\n", on))
	n.site.SetFaultsFor("down.example.org.example.com.", dnstest.Faults{Rcode: dns.RcodeServerFailure})
	w := watchWire(t, "bridge0")
	n.giveConf(n.explain("google.com", "--namespace", "shop").Search)
	for _, test := range []struct {
		name    string
		queries [2]int // of glibc, without and with autopath; 0 if not checked here
	}{
		{"google.com", [2]int{10, 2}},
		{"google.com.", [2]int{2, 2}},
		{"kubernetes.default", [2]int{4, 2}},
		{"www.google.com", [2]int{10, 2}},
		{"web", [2]int{2, 2}},
		{"web.pay.svc", [2]int{6, 2}},
		{"nowhere", [2]int{10, 10}},
		{"pay", [2]int{8, 8}},
		{"txt.example.org", [2]int{10, 10}},
		{"a.b.c.d.e.f.example.org", [2]int{10, 10}},
		{"down.example.org", [2]int{12, 12}},
	} {
		e := n.explain(test.name, "--namespace", "shop")
		said := e.Libraries[index]
		if said.AtLeast {
			n.setOptions("ndots:5 timeout:1") // musl waits that long
		}
		w.queries()
		found := n.lookup(program, 1, test.name)
		names, count := w.queries()
		if diff := cmp.Diff(said.Names, names); diff != "" {
			t.Errorf("%s: names (-explain +library)\n%s", test.name, diff)
		}
		if said.Queries != count && !said.AtLeast || count < said.Queries {
			t.Errorf("%s: explain predicts %d queries (at least: %v), the library sends %d", test.name, said.Queries, said.AtLeast, count)
		}
		if isFound := found != "none" && found != "again"; said.Found != isFound && test.name != "txt.example.org" { // it has no address
			t.Errorf("%s: explain predicts found %v, the library finds %s", test.name, said.Found, found)
		}
		want := test.queries[0]
		if on {
			want = test.queries[1]
		}
		if lib.name == "glibc" && said.Queries != want {
			t.Errorf("%s: %d queries, want %d", test.name, said.Queries, want)
		}
		if said.AtLeast {
			n.giveConf(e.Search)
		}
	}
	if lib.name == "glibc" {
		w.queries()
		n.pod.Run("getent", "ahosts", "google.com")
		if _, count := w.queries(); count != n.explain("google.com", "-n", "shop").Libraries[0].Queries {
			t.Errorf("getent ahosts google.com sends %d queries", count)
		}
	}
}

// TestSearchLists compares the rules of internal/resolvconf with the libraries' behavior for
// unusual files.
func TestSearchLists(t *testing.T) {
	long := strings.Repeat("a", 60)
	n := newPodNode(t, podCluster, podSite, "autopath: false\ndomainNeeded: false\n")
	n.site.SetFaultsFor("no.example.org.example.com.", dnstest.Faults{Rcode: dns.RcodeRefused})
	w := watchWire(t, "bridge0")
	for _, lib := range libraries[:2] {
		program := lib.program(t)
		for _, test := range []struct{ name, conf, ask string }{
			{"ndots is 1", "search example.com", "google.com"},
			{"ndots is 1, name without a dot", "search example.com", "printer"},
			{"ndots dots, name does not exist", "search example.com example.org\noptions ndots:2", "x.y.z"},
			{"ndots is 0", "search example.com\noptions ndots:0", "printer"},
			{"ndots is 15 at most", "search example.com\noptions ndots:99", strings.Repeat("a.", 15) + "a"},
			{"no list", "#", "printer"},
			{"the last search line counts", "search example.org\nsearch example.com", "printer"},
			{"domain", "domain example.com", "printer"},
			{"a domain twice", "search example.org example.org example.com", "printer"},
			{"the root", "search .", "printer"},
			{"no-tld-query", "search example.org\noptions no-tld-query", "printer"},
			{"a domain that makes it too long", "search " + strings.Join([]string{long, long, long, long}, ".") + " example.com\noptions ndots:5", "printer.a.b"},
			{"a line as long as musl reads", "search " + strings.Repeat("x.example.org ", 16) + "0123456.example.com 56\noptions ndots:5", "printer"},
			{"one character longer than musl reads", "search " + strings.Repeat("x.example.org ", 16) + "0123456.example.com 567\noptions ndots:5", "printer"},
			{"a nameserver twice", "nameserver " + bridgeIP + "\nsearch example.org\noptions ndots:5", "google.com"},
			{"another rcode", "search example.org example.com example.net\noptions ndots:5", "no.example.org"},
			{"no-aaaa", "search example.org\noptions no-aaaa", "google.com"},
		} {
			t.Run(lib.name+"/"+test.name, func(t *testing.T) {
				text := "nameserver " + bridgeIP + "\n" + test.conf + "\n"
				n.l.WriteFile("/etc/netns/pod/resolv.conf", text)
				conf := resolvconf.Parse([]byte(text)).Content()
				hostname, _ := os.Hostname()
				_, conf.LocalDomain, _ = strings.Cut(hostname, ".")
				which, queries, atLeast := resolvconf.Library(lib.name), 0, false
				want := conf.Walk(which, test.ask, n.results)
				for _, name := range want {
					count, more := conf.Queries(which, n.results(name))
					queries, atLeast = queries+count, atLeast || more
				}
				w.queries()
				found := n.lookup(program, 1, test.ask)
				names, count := w.queries()
				if diff := cmp.Diff(unique(want), names); diff != "" {
					t.Errorf("found %s, names (-expected +library)\n%s", found, diff)
				}
				if count != queries && !atLeast || count < queries {
					t.Errorf("expected %d queries (at least: %v), the library sends %d", queries, atLeast, count)
				}
			})
		}
	}
}

func unique(all []string) (some []string) {
	for _, s := range all {
		if !slices.Contains(some, strings.ToLower(s)) {
			some = append(some, strings.ToLower(s))
		}
	}
	return some
}

// results returns the daemon's results for a name.
func (n *podNode) results(name string) (all []resolvconf.Result) {
	n.t.Helper()
	for _, qtype := range []string{"A", "AAAA"} {
		answer, err := control.Query(n.t.Context(), control.SocketPath("/"), control.Question{Name: name, Type: qtype})
		if err != nil {
			n.t.Fatal(err)
		}
		all = append(all, answer.Result())
	}
	return all
}

// TestExplainKubelet checks the guide's example of a kubelet that passes on a resolv.conf with this
// node as nameserver.
func TestExplainKubelet(t *testing.T) {
	n := bootPodNode(t, podCluster, podSite, "")
	n.l.WriteFile("/etc/node-dns/kubeconfig", string(n.api.Kubeconfig()))
	n.l.WriteFile("/var/lib/kubelet/config.yaml", "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\n"+
		"clusterDomain: cluster.local\nclusterDNS: ["+bridgeIP+"]\n")
	n.l.WriteFile("/etc/origin/node/resolv.conf", "nameserver 192.0.2.53\n")
	n.start()
	const command = "node-dns explain web -n shop"
	said, err := n.l.Try(append([]string{lab.Binary(t, "node-dns")}, strings.Fields(command)[1:]...)...)
	if err == nil {
		t.Error("there is a problem, but the exit code is 0")
	}
	consoles := manpage.Consoles(t, "../../"+kubeletPage)
	i := slices.IndexFunc(consoles, func(c manpage.Console) bool { return c.Command == command })
	if i < 0 {
		t.Fatalf("the guide does not show %s", command)
	}
	varying := regexp.MustCompile(`\d+(\.\d+)?ms|  +`) // column widths depend on the times
	document, printed := varying.ReplaceAllString(consoles[i].Output, "  "), varying.ReplaceAllString(said, "  ")
	if diff := cmp.Diff(document, printed); diff != "" {
		t.Errorf("output (-guide +printed)\n%s\n%s", diff, said)
	}
}

// TestAdviceLosesNoName applies the advice of explain and doctor for the kubelet's resolvConf, and
// repeats the lookups: all names that resolved in a pod still do. The advised file used to have
// only nameservers, and printer, in the site's search domain, no longer resolved.
func TestAdviceLosesNoName(t *testing.T) {
	for _, test := range []struct{ name, upstreams string }{
		{"plain upstreams", "nameserver 192.0.2.53\n"},
		{"none that a pod can query", "nameserver fe80::1%bridge0\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			n := bootPodNode(t, podCluster, podSite, "")
			kubelet := "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\nclusterDomain: cluster.local\nclusterDNS: [" + bridgeIP + "]\n"
			n.l.WriteFile("/etc/node-dns/kubeconfig", string(n.api.Kubeconfig()))
			n.l.WriteFile("/var/lib/kubelet/config.yaml", kubelet)
			n.l.WriteFile(resolvConf, "search example.com\n"+test.upstreams+"options timeout:2\n")
			n.start()
			n.l.Run(lab.Binary(t, "origin-dns-dispatcher"), "apply")
			names := []string{"printer", "google.com", "web", "kubernetes.default"}
			before := map[string]bool{}
			for _, name := range names {
				before[name] = n.explain(name, "-n", "shop").Found
			}
			if !before["printer"] || !before["web"] {
				t.Fatalf("found before: %v", before)
			}
			advised := regexp.MustCompile(`point it at (/\S+),`)
			advice := advised.FindStringSubmatch(fmt.Sprintf("%+v", n.explain("printer", "-n", "shop").Search.Faults))
			if advice == nil {
				t.Fatal("explain gives no advice")
			}
			r := diagnose(t, n.l)
			wantFinding(t, r, "kubelet", doctor.Fail, "point it at "+advice[1]+",", "resolvConf in /var/lib/kubelet/config.yaml")

			n.l.WriteFile("/var/lib/kubelet/config.yaml", kubelet+"resolvConf: "+advice[1]+"\n")
			var after control.Explanation
			n.l.Await("the kubelet's new file to be read", func() bool {
				after = n.explain("printer", "-n", "shop")
				return after.Search.Host != nil && after.Search.Host.Path == advice[1]
			})
			for _, name := range names {
				if before[name] && !n.explain(name, "-n", "shop").Found {
					t.Errorf("%s no longer resolves after the advice was applied:\n%s", name, n.l.ReadFile(advice[1]))
				}
			}
			if len(after.Search.Faults) > 0 {
				t.Errorf("there is still a problem: %+v", after.Search.Faults)
			}
			wantFinding(t, diagnose(t, n.l), "kubelet", doctor.OK, "resolvConf="+advice[1])
		})
	}
}
