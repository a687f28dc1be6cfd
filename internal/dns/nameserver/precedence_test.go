package nameserver

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
)

// parseClaim parses a claim: "dnsmasq x.conf:3: /b/ 10.0.0.1 10.0.0.2", with "local" or "standard"
// instead of servers, "!10.0.0.1" for a refused one, "gives-way", and "barred". Without a domain it
// is for the root.
func parseClaim(t testing.TB, text string) Claim {
	t.Helper()
	who, what, ok := strings.Cut(text, ": ")
	if !ok {
		t.Fatalf("claim %q", text)
	}
	c := Claim{Domain: dnsname.Root()}
	for _, row := range Table {
		if rest, ok := strings.CutPrefix(who, row.Name); ok {
			c.Source, c.Detail = row.Source, strings.TrimSpace(rest)
		}
	}
	for word := range strings.FieldsSeq(what) {
		switch {
		case word == "local":
			c.Kind = Local
		case word == "standard":
			c.Kind = Standard
		case word == "gives-way":
			c.GivesWay = true
		case word == "barred":
			c.Barred = "barred"
		case word == "//":
			c.Plain = true
		case word[0] == '/':
			c.Domain = dnsname.MustParse(strings.Trim(word, "/"))
		case word[0] == '!':
			c.Refused = append(c.Refused, Refused{MustParse(word[1:]), "refused"})
		default:
			c.Servers = append(c.Servers, MustParse(word))
		}
	}
	if c.Source == 0 {
		t.Fatalf("claim %q has no known source", text)
	}
	return c
}

// show formats the decision about a domain: "/a/=10.0.0.1,10.0.0.2".
func show(c Claim) string {
	domain := "/" + c.Domain.Relative() + "/"
	switch {
	case c.Plain:
		domain = "//"
	case c.Domain.IsRoot():
		domain = "."
	}
	if c.Kind == Local {
		return domain + "=local"
	}
	var words []string
	for _, server := range c.Servers {
		words = append(words, server.String())
	}
	return domain + "=" + strings.Join(words, ",")
}

func TestSettle(t *testing.T) {
	tests := []struct {
		name   string
		claims []string
		routes string
		lost   []string
	}{
		{name: "no source names a server"},
		{
			name: "D-Bus, command line", claims: []string{"command line: 10.0.0.2", "D-Bus :1.5: 10.0.0.1"},
			routes: ".=10.0.0.1", lost: []string{"D-Bus :1.5 wins over the command line"},
		},
		{
			name: "command line, cluster", claims: []string{"cluster clusterDNS n:1: /c/ 10.0.0.2", "command line: 10.0.0.1"},
			routes: "/c/=10.0.0.2 .=10.0.0.1", // for different domains
		},
		{
			name: "D-Bus, cluster", claims: []string{"cluster clusterDNS n:1: /c/ 10.0.0.2", "D-Bus :1.5: /c/ 10.0.0.1"},
			routes: "/c/=10.0.0.1", lost: []string{"D-Bus :1.5 wins over clusterDNS n:1"},
		},
		{
			name: "cluster, node-dns.yaml", claims: []string{"node-dns.yaml routes n:2: /c/ 10.0.0.2", "cluster clusterDNS n:1: /c/ 10.0.0.1"},
			routes: "/c/=10.0.0.1", lost: []string{"clusterDNS n:1 wins over routes n:2"},
		},
		{
			name: "command line, node-dns.yaml", claims: []string{"node-dns.yaml upstreams n:2: 10.0.0.2", "command line: 10.0.0.1"},
			routes: ".=10.0.0.1", lost: []string{"the command line wins over upstreams n:2"},
		},
		{
			name: "node-dns.yaml, dnsmasq", claims: []string{"dnsmasq x.conf:3: 10.0.0.2", "node-dns.yaml upstreams n:2: 10.0.0.1"},
			routes: ".=10.0.0.1", lost: []string{"upstreams n:2 wins over dnsmasq x.conf:3"},
		},
		{
			name: "dnsmasq, node-config.yaml", claims: []string{"node-config.yaml dnsNameservers c:1: 10.0.0.2", "dnsmasq x.conf:3: 10.0.0.1"},
			routes: ".=10.0.0.1", lost: []string{"dnsmasq x.conf:3 wins over dnsNameservers c:1"},
		},
		{
			name: "node-config.yaml, cluster's DNS", claims: []string{"cluster's DNS dns.operator/default upstreamResolvers: 10.0.0.2", "node-config.yaml dnsNameservers c:1: 10.0.0.1"},
			routes: ".=10.0.0.1", lost: []string{"dnsNameservers c:1 wins over dns.operator/default upstreamResolvers"},
		},
		{
			name: "cluster's DNS, NetworkManager", claims: []string{"NetworkManager eth0 (lan): 10.0.0.2", "cluster's DNS ConfigMap kube-system/coredns Corefile:9: 10.0.0.1"},
			routes: ".=10.0.0.1", lost: []string{"ConfigMap kube-system/coredns Corefile:9 wins over NetworkManager eth0 (lan)"},
		},
		{
			name: "NetworkManager, resolv.conf", claims: []string{"resolv.conf /etc/resolv.conf: 10.0.0.2", "NetworkManager eth0 (lan): 10.0.0.1"},
			routes: ".=10.0.0.1", lost: []string{"NetworkManager eth0 (lan) wins over /etc/resolv.conf"},
		},
		{
			name: "resolv.conf, last-good", claims: []string{"last-good eth1: 10.0.0.2", "resolv.conf /etc/resolv.conf: 10.0.0.1"},
			routes: ".=10.0.0.1", lost: []string{"/etc/resolv.conf wins over last-good eth1"},
		},
		{
			name: "NetworkManager, last-good", claims: []string{"last-good eth1: 10.0.0.2", "NetworkManager NetworkManager eth0: 10.0.0.1"},
			routes: ".=10.0.0.1", lost: []string{"NetworkManager eth0 wins over last-good eth1"},
		},
		{
			name:   "one domain each for D-Bus and dnsmasq, all names for node-dns.yaml",
			claims: []string{"D-Bus :1.5: /a/ 10.0.0.1", "node-dns.yaml upstreams n:2: 10.0.0.2", "dnsmasq x.conf:3: /b/ 10.0.0.3"},
			routes: "/a/=10.0.0.1 /b/=10.0.0.3 .=10.0.0.2",
		},
		{
			name:   "stronger source with a shorter domain",
			claims: []string{"D-Bus :1.5: /a/ 10.0.0.1", "NetworkManager tun0: /b.a/ 10.0.0.2", "NetworkManager eth0: 10.0.0.3"},
			routes: "/a/=10.0.0.1 /b.a/=10.0.0.2 .=10.0.0.3",
		},
		{
			name:   "names without dots",
			claims: []string{"dnsmasq x.conf:1: // 10.0.0.1", "node-dns.yaml upstreams n:1: 10.0.0.2", "dnsmasq x.conf:2: 10.0.0.3"},
			routes: "//=10.0.0.1 .=10.0.0.2", lost: []string{"upstreams n:1 wins over dnsmasq x.conf:2"},
		},
		{
			name:   "standard servers, from any source",
			claims: []string{"dnsmasq x.conf:1: /a/ standard", "node-dns.yaml routes n:1: /a/ standard", "NetworkManager eth0: 10.0.0.3"},
			routes: "/a/=10.0.0.3 .=10.0.0.3", lost: []string{"routes n:1 wins over dnsmasq x.conf:1"},
		},
		{name: "standard servers, without servers for all names", claims: []string{"dnsmasq x.conf:1: /a/ standard"}, routes: "/a/="},
		{
			name: "standard servers, all names are local", claims: []string{"dnsmasq x.conf:1: /a/ standard", "D-Bus :1.5: local"},
			routes: "/a/= .=local",
		},
		{
			name: "all names are local", claims: []string{"D-Bus :1.5: local", "NetworkManager eth0: 10.0.0.3"},
			routes: ".=local", lost: []string{"D-Bus :1.5 wins over NetworkManager eth0"},
		},
		{
			name:   "a claim without usable servers keeps the domain",
			claims: []string{"node-dns.yaml upstreams n:1: !10.0.0.1", "NetworkManager eth0: 10.0.0.3"},
			routes: ".=", lost: []string{"upstreams n:1 wins over NetworkManager eth0"},
		},
		{
			name:   "claim without usable servers gives way",
			claims: []string{"node-config.yaml c:1: gives-way !10.0.0.1", "NetworkManager eth0: gives-way !10.0.0.3", "last-good eth0: gives-way 10.0.0.4"},
			routes: ".=10.0.0.4", lost: []string{"none of its servers is usable", "none of its servers is usable"},
		},
		{
			name:   "weaker claim without usable servers loses",
			claims: []string{"D-Bus :1.5: 10.0.0.1", "NetworkManager eth0: gives-way !10.0.0.3"},
			routes: ".=10.0.0.1", lost: []string{"D-Bus :1.5 wins over NetworkManager eth0"},
		},
		{
			name:   "barred claim is ignored",
			claims: []string{"dnsmasq x.conf:1: /c/ 10.0.0.1 barred", "NetworkManager eth0: /c/ 10.0.0.3", "dnsmasq x.conf:2: /d/ 10.0.0.1 barred"},
			routes: "/c/=10.0.0.3", lost: []string{"barred", "barred"},
		},
		{
			name: "the first claim of a source wins", claims: []string{"dnsmasq x.conf:1: 10.0.0.1", "dnsmasq x.conf:2: 10.0.0.2"},
			routes: ".=10.0.0.1", lost: []string{"dnsmasq x.conf:1 wins over dnsmasq x.conf:2"},
		},
	}
	seen := map[string]bool{}
	for _, tt := range tests {
		seen[tt.name] = true
		t.Run(tt.name, func(t *testing.T) {
			var claims []Claim
			for _, text := range tt.claims {
				claims = append(claims, parseClaim(t, text))
			}
			routes, losses := Settle(claims)
			var won, lost []string
			for _, r := range routes {
				won = append(won, show(r.Claim))
			}
			for _, l := range losses {
				lost = append(lost, l.Why)
			}
			if diff := cmp.Diff(tt.routes, strings.Join(won, " ")); diff != "" {
				t.Errorf("routes (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.lost, lost); diff != "" {
				t.Errorf("lost (-want +got):\n%s", diff)
			}
			holds(t, claims)
		})
	}
	for i, row := range Table[1:] {
		if pair := Table[i].Name + ", " + row.Name; !seen[pair] {
			t.Errorf("missing row %q", pair)
		}
	}
}

// holds checks the invariants: each claim is in exactly one list, the winner of a domain is the
// strongest claim that counts, and each domain with such a claim has a winner.
func holds(t testing.TB, claims []Claim) {
	t.Helper()
	before := fmt.Sprint(claims)
	routes, losses := Settle(claims)
	if fmt.Sprint(claims) != before {
		t.Fatal("the claims were changed")
	}
	var all []Claim
	for _, r := range routes {
		c := r.Claim
		if c.Kind == Standard {
			c.Servers = nil
		}
		all = append(all, c)
	}
	for _, l := range losses {
		all = append(all, l.Claim)
		if l.Why == "" || l.GaveWay && (l.Barred != "" || len(l.Servers) > 0) {
			t.Fatalf("loss %+v", l)
		}
	}
	sorted := func(claims []Claim) []string {
		var words []string
		for _, c := range claims {
			words = append(words, fmt.Sprint(c))
		}
		slices.Sort(words)
		return words
	}
	if diff := cmp.Diff(sorted(claims), sorted(all)); diff != "" {
		t.Fatalf("claims (-given +returned):\n%s", diff)
	}
	for _, c := range claims {
		if c.Barred != "" || c.isVoid() {
			continue
		}
		won := slices.IndexFunc(routes, func(r Route) bool { return r.domain() == c.domain() })
		if won < 0 || routes[won].Source > c.Source || slices.ContainsFunc(routes[won+1:], func(r Route) bool { return r.domain() == c.domain() }) {
			t.Fatalf("%s of %s: got routes %v", show(c), c, routes)
		}
	}
}

// TestEverySubset checks the invariants for all combinations of sources that have servers, have
// none left, are barred, or have no claim.
func TestEverySubset(t *testing.T) {
	forms := []string{"", "10.0.0.1", "!10.0.0.1", "gives-way !10.0.0.1", "barred 10.0.0.1"}
	made := make([][]Claim, len(Table)) // by source and form
	total := 1
	for i, row := range Table {
		made[i] = append(made[i], Claim{})
		for _, form := range forms[1:] {
			made[i] = append(made[i], parseClaim(t, row.Name+" x: "+form))
		}
		total *= 3 // two of the forms at a time, and no claim; all five would take a minute
	}
	for _, pair := range [][2]int{{1, 2}, {1, 3}, {1, 4}, {2, 3}, {3, 4}} {
		for n := range total {
			var claims []Claim
			for i, rest := len(Table)-1, n; i >= 0; i, rest = i-1, rest/3 {
				if rest%3 > 0 {
					claims = append(claims, made[i][pair[rest%3-1]])
				}
			}
			routes, _ := Settle(claims)
			strongest := Source(0)
			for _, c := range slices.Backward(claims) {
				if c.Barred == "" && !c.isVoid() && (strongest == 0 || c.Source < strongest) {
					strongest = c.Source
				}
			}
			if len(routes) > 1 || (len(routes) == 1) != (strongest > 0) || strongest > 0 && routes[0].Source != strongest {
				t.Fatalf("%v: %v", claims, routes)
			}
		}
	}
}

func FuzzSettle(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9})
	f.Add([]byte("several domains of several sources"))
	domains := []dnsname.Name{dnsname.Root(), dnsname.MustParse("a"), dnsname.MustParse("b.a"), dnsname.MustParse("c")}
	f.Fuzz(func(t *testing.T, data []byte) {
		var claims []Claim
		for chunk := range slices.Chunk(data[:min(len(data), 200)], 2) {
			c := Claim{Source: Table[int(chunk[0])%len(Table)].Source, Detail: fmt.Sprint(len(claims)), Domain: domains[chunk[0]>>6]}
			if len(chunk) > 1 {
				c.Kind, c.GivesWay, c.Plain = Kind(chunk[1]%3), chunk[1]&4 > 0, chunk[1]&8 > 0 && c.Domain.IsRoot()
				if chunk[1]&16 > 0 && c.Kind == Ask {
					c.Servers = []Server{MustParse(fmt.Sprintf("10.0.0.%d", chunk[1]))}
				}
				if chunk[1]&32 > 0 {
					c.Barred = "barred"
				}
			}
			claims = append(claims, c)
		}
		holds(t, claims)
	})
}
