package resolvconf

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const podConf = "nameserver 10.0.0.5\nsearch shop.svc.cluster.local svc.cluster.local cluster.local example.com\noptions ndots:5\n"

func conf(text string) Content { return Parse([]byte(text)).Content() }

func TestNames(t *testing.T) {
	long := strings.Repeat("a", 60)
	for _, test := range []struct{ name, conf, ask, glibc, musl string }{
		{
			"fewer dots than ndots: the list first", podConf, "google.com",
			"google.com.shop.svc.cluster.local. google.com.svc.cluster.local. google.com.cluster.local. google.com.example.com. google.com.", "same",
		},
		{"a dot at the end", podConf, "google.com.", "google.com.", "same"},
		{"ndots dots: glibc tries it first, musl tries nothing else", "search a b\noptions ndots:2", "x.y.z", "x.y.z. x.y.z.a. x.y.z.b.", "x.y.z."},
		{"ndots is 1", "search a", "web", "web.a. web.", "same"},
		{"ndots is 1, name with a dot", "search a", "web.shop", "web.shop. web.shop.a.", "web.shop."},
		{"ndots 0", "search a\noptions ndots:0", "web", "web. web.a.", "web."},
		{"ndots is 15 at most", "search a\noptions ndots:99", strings.Repeat("a.", 15) + "a", strings.Repeat("a.", 16) + " " + strings.Repeat("a.", 16) + "a.", strings.Repeat("a.", 16)},
		{"the last ndots counts", "search a\noptions ndots:1 ndots:3", "x.y", "x.y.a. x.y.", "same"},
		{"no list", "nameserver 10.0.0.5", "web", "web.", "same"},
		{"the last search line counts", "search a\nsearch b", "web", "web.b. web.", "same"},
		{"a duplicate domain is queried twice", "search a a", "web", "web.a. web.a. web.", "same"},
		{"the root in the list", "search a . b\noptions ndots:2", "x.y", "x.y.a. x.y. x.y.b.", "x.y.a."},
		{"dots at a domain's end", "search a.", "web", "web.a. web.", "same"},
		{"no-tld-query", "search a\noptions no-tld-query", "web", "web.a.", "web.a. web."},
		{
			"a domain that makes it too long ends glibc's list", "search " + strings.Join([]string{long, long, long, long}, ".") + " a", "web.x.y.zz",
			"web.x.y.zz.", "web.x.y.zz.",
		},
		{
			"and not musl's", "options ndots:5\nsearch " + strings.Join([]string{long, long, long, long[:50]}, ".") + " a", "web.a.b.c.d" + long[:20],
			"web.a.b.c.d" + long[:20] + ".", "web.a.b.c.d" + long[:20] + ".a. web.a.b.c.d" + long[:20] + ".",
		},
		{"musl reads no long line", "options ndots:5\nsearch " + strings.Repeat("a ", 130), "web", strings.Repeat("web.a. ", 130) + "web.", "web."},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.musl == "same" {
				test.musl = test.glibc
			}
			for lib, want := range map[Library]string{GLibc: test.glibc, Musl: test.musl} {
				if diff := cmp.Diff(strings.Fields(want), conf(test.conf).Names(lib, test.ask)); diff != "" {
					t.Errorf("%s (-want +got):\n%s", lib, diff)
				}
			}
		})
	}
	if got := (Content{LocalDomain: "corp"}).Names(GLibc, "web"); got[0] != "web.corp." {
		t.Errorf("with the host name's domain: got %v", got)
	}
}

// TestWalk uses names whose answers are in a table: A, and AAAA if it differs.
func TestWalk(t *testing.T) {
	type answers map[string][]Result
	both := func(r Result) []Result { return []Result{r, r} }
	for _, test := range []struct {
		name, ask   string
		there       answers
		glibc, musl string
		queries     [2]int // of glibc and musl; negative means at least
	}{
		{"found at the end", "google.com", answers{"google.com.": both(Found)}, "1 2 3 4 5", "1 2 3 4 5", [2]int{10, 10}},
		{"found at once", "web", answers{"web.shop.svc.cluster.local.": {Found, NoData}}, "1", "1", [2]int{2, 2}},
		{"IPv6 alone", "web", answers{"web.shop.svc.cluster.local.": {NoData, Found}}, "1", "1", [2]int{2, 2}},
		{"nowhere", "nowhere", nil, "1 2 3 4 5", "1 2 3 4 5", [2]int{10, 10}},
		{"musl ends where a name has no address", "pay", answers{"pay.svc.cluster.local.": both(NoData), "pay.example.com.": both(Found)}, "1 2 3 4", "1 2", [2]int{8, 4}},
		{"musl ends at a failure", "down", answers{"down.svc.cluster.local.": both(Failed), "down.": both(Found)}, "1 2 3 4 5", "1 2", [2]int{12, -4}},
		{"glibc leaves the list at another rcode", "odd", answers{"odd.svc.cluster.local.": both(Refused)}, "1 2 5", "1 2", [2]int{8, -4}},
		{"a name denied for one type only", "half", answers{"half.shop.svc.cluster.local.": {Absent, Found}}, "1", "1 2 3 4 5", [2]int{2, 10}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := conf(podConf)
			ask := func(name string) []Result {
				if results, ok := test.there[name]; ok {
					return results
				}
				return both(Absent)
			}
			for i, lib := range []Library{GLibc, Musl} {
				all, want := c.Names(lib, test.ask), strings.Fields([]string{test.glibc, test.musl}[i])
				for i, number := range want {
					want[i] = all[number[0]-'1']
				}
				asked := c.Walk(lib, test.ask, ask)
				if diff := cmp.Diff(want, asked); diff != "" {
					t.Errorf("%s (-want +got):\n%s", lib, diff)
				}
				queries, sign := 0, 1
				for _, name := range asked {
					n, atLeast := c.Queries(lib, ask(name))
					if queries += n; atLeast {
						sign = -1
					}
				}
				if sign*queries != test.queries[i] {
					t.Errorf("%s: got %d queries, want %d", lib, sign*queries, test.queries[i])
				}
			}
		})
	}
}

func TestQueries(t *testing.T) {
	two := conf("nameserver 10.0.0.5\nnameserver 10.0.0.6\n")
	four := conf(strings.Repeat("nameserver 10.0.0.5\n", 4) + "options attempts:3")
	for _, test := range []struct {
		name    string
		conf    Content
		lib     Library
		results []Result
		n       int
		atLeast bool
	}{
		{"glibc queries one nameserver", two, GLibc, []Result{Found, Found}, 2, false},
		{"musl queries all", two, Musl, []Result{Found, Found}, 4, false},
		{"musl queries at most three", four, Musl, []Result{Absent}, 3, false},
		{"glibc retries each failing nameserver once", two, GLibc, []Result{Failed, Failed}, 8, false},
		{"glibc follows the attempts option", four, GLibc, []Result{Failed}, 9, false},
		{"only one type fails", two, GLibc, []Result{Found, Failed}, 2, true},
		{"musl retries until its timeout", two, Musl, []Result{Failed, Failed}, 4, true},
		{"no nameserver: this host is queried", Content{}, Musl, []Result{Absent, Absent}, 2, false},
	} {
		if n, atLeast := test.conf.Queries(test.lib, test.results); n != test.n || atLeast != test.atLeast {
			t.Errorf("%s: got %d, %v, want %d, %v", test.name, n, atLeast, test.n, test.atLeast)
		}
	}
}

func TestKubelet(t *testing.T) {
	addr := netip.MustParseAddr
	k := Kubelet{
		DNS: []netip.Addr{addr("10.0.0.5")}, Domain: "cluster.local",
		Host:   Content{Nameservers: []netip.Addr{addr("192.0.2.53"), addr("192.0.2.53")}, Search: []string{"corp.example", "cluster.local"}, Options: []string{"rotate"}},
		Limits: LimitsOf(false),
	}
	own := Content{Nameservers: []netip.Addr{addr("192.0.2.9")}, Search: []string{"own", "svc.cluster.local"}, Options: []string{"ndots:2", "edns0"}}
	for _, test := range []struct {
		name string
		pod  Pod
		want string // nameservers | search | options
	}{
		{"ClusterFirst", Pod{Namespace: "shop"}, "10.0.0.5 | shop.svc.cluster.local svc.cluster.local cluster.local corp.example | ndots:5"},
		{"ClusterFirst with hostNetwork is like Default", Pod{Namespace: "shop", Policy: PolicyClusterFirst, HostNetwork: true}, "192.0.2.53 192.0.2.53 | corp.example cluster.local | rotate"},
		{"ClusterFirstWithHostNet with hostNetwork", Pod{Namespace: "shop", Policy: PolicyClusterFirstWithHostNet, HostNetwork: true}, "10.0.0.5 | shop.svc.cluster.local svc.cluster.local cluster.local corp.example | ndots:5"},
		{"Default", Pod{Namespace: "shop", Policy: PolicyDefault}, "192.0.2.53 192.0.2.53 | corp.example cluster.local | rotate"},
		{"None uses only dnsConfig", Pod{Namespace: "shop", Policy: PolicyNone, Own: own}, "192.0.2.9 | own svc.cluster.local | ndots:2 edns0"},
		{"dnsConfig is added to ClusterFirst", Pod{Namespace: "shop", Own: own}, "10.0.0.5 192.0.2.9 | shop.svc.cluster.local svc.cluster.local cluster.local corp.example own | ndots:2 edns0"},
		{"dnsConfig is added to Default", Pod{Policy: PolicyDefault, Own: own}, "192.0.2.53 192.0.2.9 | corp.example cluster.local own svc.cluster.local | rotate ndots:2 edns0"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := k.Conf(test.pod)
			if got := words(c.Nameservers) + " | " + strings.Join(c.Search, " ") + " | " + strings.Join(c.Options, " "); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
	k.DNS, k.Domain = nil, ""
	if c := k.Conf(Pod{Namespace: "shop"}); len(c.Nameservers) != 2 {
		t.Errorf("without clusterDNS: got %v, want the host's file", c)
	}
}

func TestLimits(t *testing.T) {
	c := conf(strings.Repeat("nameserver 10.0.0.5\n", 4) + "search a b c d e f g")
	if cut := LimitsOf(true).Cut(c); len(cut.Nameservers) != 3 || len(cut.Search) != 6 {
		t.Errorf("got %v", cut)
	}
	if cut := LimitsOf(false).Cut(c); len(cut.Search) != 7 {
		t.Errorf("got %v", cut)
	}
	long := Content{Search: []string{strings.Repeat("a", 126), strings.Repeat("b", 129), "c"}}
	if cut := LimitsOf(true).Cut(long); len(cut.Search) != 2 {
		t.Errorf("with 256 characters including the blank: got %d domains", len(cut.Search))
	}
}

func TestChecks(t *testing.T) {
	addr := netip.MustParseAddr
	node := addr("10.0.0.5")
	checks := Checks{
		IsNode:   func(a netip.Addr) bool { return a == node || a.IsLoopback() },
		Answers:  func(a netip.Addr) bool { return a == node },
		HostFile: "/etc/resolv.conf", Setting: "config.yaml",
	}
	with := func(change func(*Checks)) Checks { c := checks; change(&c); return c }
	for _, test := range []struct {
		name   string
		checks Checks
		host   string // the kubelet's file; "" checks the node's own
		conf   string
		want   []string // strings that occur once each in the faults
	}{
		{"a correct pod", checks, "nameserver 192.0.2.53", podConf, nil},
		{
			"the node where the original belongs", with(func(c *Checks) { c.Originals = "/etc/origin/node/resolv.conf" }), "nameserver 10.0.0.5", podConf,
			[]string{"list this node twice point it at /etc/origin/node/resolv.conf"},
		},
		{"the hook has captured nothing", checks, "nameserver 10.0.0.5", podConf, []string{"point it at a file with"}},
		{"the hook writes a file", with(func(c *Checks) { c.Hooks, c.Writes = "/etc/hooks.conf", true }), "nameserver 10.0.0.5", podConf, []string{"point it at /etc/hooks.conf, to which"}},
		{"the hook found no servers for its file", with(func(c *Checks) { c.Hooks = "/etc/hooks.conf" }), "nameserver 10.0.0.5", podConf, []string{"point it at a file with"}},
		{
			"systemd-resolved's stub", with(func(c *Checks) { c.Uplinks = "/run/systemd/resolve/resolv.conf" }), "nameserver 127.0.0.53", podConf,
			[]string{"names 127.0.0.53, which in a pod with dnsPolicy Default is the pod itself; nothing answers there point it at /run/systemd/resolve/resolv.conf"},
		},
		{"no file", with(func(c *Checks) { c.Missing = true }), "#", podConf, []string{"/etc/resolv.conf does not exist, so no pod can start point it at a file"}},
		{"the hook's file does not exist yet", with(func(c *Checks) { c.Missing, c.Hooks = true, c.HostFile }), "#", podConf, []string{`no pod can start run "origin-dns-dispatcher apply" to create it`}},
		{"an unreadable file", with(func(c *Checks) { c.Unread = "permission denied" }), "#", podConf, []string{"/etc/resolv.conf cannot be read here (permission denied); if the kubelet cannot read it either"}},
		{"an empty file", checks, "#", podConf, []string{"lists no nameserver"}},
		{"loopback in a pod", checks, "nameserver 192.0.2.53", "nameserver 127.0.0.1", []string{"pods get the nameserver 127.0.0.1"}},
		{"too many domains", checks, "nameserver 192.0.2.53", "nameserver 10.0.0.5\nsearch a b c d e f g h", []string{"drops g h"}},
		{"a correct node", checks, "", "nameserver 10.0.0.5\nsearch a", nil},
		{"a node that queries other servers", checks, "", "nameserver 192.0.2.53", []string{"processes on this node query 192.0.2.53 instead of node-dns"}},
		{"the root in the list", checks, "", "nameserver 10.0.0.5\nsearch .", []string{"search list contains the root"}},
		{"no nameserver", checks, "", "search a", []string{"C libraries query 127.0.0.1"}},
		{"twice", checks, "", "nameserver 10.0.0.5\nnameserver 10.0.0.5", []string{"10.0.0.5 is listed twice"}},
		{"too many", checks, "", "nameserver 10.0.0.5\nnameserver 192.0.2.1\nnameserver 192.0.2.2\nnameserver 192.0.2.3", []string{"never 192.0.2.3"}},
		{"a line too long for musl", checks, "", "nameserver 10.0.0.5\nsearch " + strings.Repeat("a", 248), []string{"255 characters: musl"}},
		{
			"this node, where nothing listens", with(func(c *Checks) { c.Answers = func(netip.Addr) bool { return false } }), "", "nameserver 10.0.0.5",
			[]string{"10.0.0.5 is this node, but node-dns does not listen there", "instead of node-dns"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			var faults []Fault
			if c := conf(test.conf); test.host == "" {
				faults = test.checks.Node(c)
			} else {
				faults = test.checks.Pod(Kubelet{DNS: []netip.Addr{node}, Host: conf(test.host), Limits: LimitsOf(true)}, c)
			}
			if len(faults) != len(test.want) {
				t.Fatalf("got %+v, want %q", faults, test.want)
			}
			for i, want := range test.want {
				if got := faults[i].What + " " + faults[i].Fix; !strings.Contains(got, want) || faults[i].Fix == "" {
					t.Errorf("got %q, want %q", got, want)
				}
			}
		})
	}
}

// TestNoFile: the kubelet itself writes the result for "", so the fault says so.
func TestNoFile(t *testing.T) {
	c := Checks{Setting: "config.yaml", IsNode: netip.Addr.IsLoopback}
	k := Kubelet{NoFile: true, Limits: LimitsOf(false)}
	faults := c.Pod(k, k.Conf(Pod{Namespace: "shop", Policy: PolicyDefault}))
	if len(faults) != 1 || !strings.Contains(faults[0].What, `resolvConf is ""`) || !strings.Contains(faults[0].Fix, "config.yaml") {
		t.Errorf("got %+v", faults)
	}
}

// TestKubeletWithoutFile: the kubelet's resolvConf is "".
func TestKubeletWithoutFile(t *testing.T) {
	a := netip.MustParseAddr("10.0.0.5")
	pod := Kubelet{DNS: []netip.Addr{a}, Domain: "corp.test", NoFile: true}
	if got := pod.Conf(Pod{Namespace: "shop", Policy: PolicyDefault}); len(got.Nameservers) != 1 || !got.Nameservers[0].IsLoopback() || got.Search[0] != "." {
		t.Errorf("without a file and with dnsPolicy Default: got %+v", got)
	}
	if got := pod.Conf(Pod{Namespace: "shop"}); got.Nameservers[0] != a || len(got.Search) != 3 {
		t.Errorf("without a file: got %+v", got)
	}
}

// FuzzNames: there is at least one name, every name is valid to query, and each ends in a dot.
func FuzzNames(f *testing.F) {
	f.Add(podConf, "google.com")
	f.Add("search . a..b\noptions ndots:x ndots:-1", ".")
	f.Fuzz(func(t *testing.T, text, name string) {
		for _, lib := range []Library{GLibc, Musl} {
			names := conf(text).Names(lib, name)
			for _, asked := range names {
				if !strings.HasSuffix(asked, ".") || !strings.HasPrefix(asked, strings.TrimSuffix(name, ".")) {
					t.Errorf("%s: %q", lib, asked)
				}
			}
		}
	})
}
