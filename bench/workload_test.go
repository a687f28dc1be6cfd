package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/bench/result"
)

func TestQueries(t *testing.T) {
	for _, test := range []struct {
		name         string
		queries      queries
		all, differs int
		first        string
	}{
		{"hot", hot(1000), 1000, 1000, "h00000.example.com A"},
		{"unique", unique("m", 50_000), 50_000, 50_000, "u0000000.m.example.com A"},
		{"pods", pods, 410_000, 10_208, "svc-0.ns-0.svc.cluster.local A"},
		{"each of pods", podsOnce, 11_000, 10_208, "svc-0.ns-0.svc.cluster.local A"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var b strings.Builder
			if err := test.queries.writeTo(&b); err != nil {
				t.Fatal(err)
			}
			lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
			differ := map[string]bool{}
			for _, line := range lines {
				differ[line] = true
			}
			if len(lines) != test.all || len(differ) != test.differs || lines[0] != test.first {
				t.Errorf("%d queries, %d of them different, the first %q", len(lines), len(differ), lines[0])
			}
		})
	}
}

// TestPodsShare: about eight in ten of a pod's queries are for names that do not exist.
func TestPodsShare(t *testing.T) {
	var b strings.Builder
	if err := queries(pods).writeTo(&b); err != nil {
		t.Fatal(err)
	}
	missing := strings.Count(b.String(), "google.com.") // followed by a domain of the search list
	if share := float64(missing) / float64(strings.Count(b.String(), "\n")); share < 0.77 || share > 0.83 {
		t.Errorf("%.2f of the names do not exist", share)
	}
}

func TestChoose(t *testing.T) {
	for _, test := range []struct{ name, names, want string }{
		{"all", "all", "echo node-dns node-dns-forwarding node-dns-one-address unbound dnsdist pdns-recursor bind9 knot-resolver dnsmasq coredns node-cache <nil>"},
		{"in the order of the table", "unbound,echo", "echo unbound <nil>"},
		{"unknown", "unbound,named", ` unknown name "named"; expected one of echo, node-dns, node-dns-forwarding, node-dns-one-address, unbound, dnsdist, pdns-recursor, bind9, knot-resolver, dnsmasq, coredns, node-cache`},
	} {
		t.Run(test.name, func(t *testing.T) {
			chosen, err := choosePeers(test.names)
			var names []string
			for _, p := range chosen {
				names = append(names, p.name)
			}
			if got := fmt.Sprint(strings.Join(names, " "), " ", err); got != test.want {
				t.Errorf("got %s\nwant %s", got, test.want)
			}
		})
	}
}

// TestPeers: every configuration belongs to a peer, and contains its listen address and upstream.
func TestPeers(t *testing.T) {
	files, err := templates.ReadDir("peers")
	if err != nil {
		t.Fatal(err)
	}
	unused := map[string]bool{}
	for _, f := range files {
		unused[f.Name()] = true
	}
	faults, err := templates.ReadDir("peers/faults")
	if err != nil {
		t.Fatal(err)
	}
	delete(unused, "faults")
	for _, f := range faults {
		unused["faults/"+f.Name()] = true
	}
	v := values{
		Dir: "/dir", Config: "/dir/config", Port: 5301, Addresses: loopback(4), Upstream: 5302, Threads: 2,
		Upstreams: []int{5302, 5303}, Zone: "zone.test", ZoneUpstream: 5304, CacheSize: 10, CacheOctets: 20,
	}
	for _, p := range slices.Concat(peers, faultPeers, []peer{tlsFront}) {
		config, argv, err := p.render(v)
		if err != nil {
			t.Fatal(err)
		}
		delete(unused, p.config)
		all := config + strings.Join(argv, " ")
		if !strings.Contains(all, "5301") || p.config != "" && !strings.Contains(all, "5302") || strings.Contains(all, "{{") {
			t.Errorf("%s: %s %q", p.name, config, argv)
		}
		overTLS := v
		overTLS.CA = "certificate"
		config, _, err = p.render(overTLS)
		isOverTLS := strings.Contains(config, "tls") && strings.Contains(config, "5302") && strings.Contains(config, "localhost")
		if err != nil || p.tls && !isOverTLS {
			t.Errorf("%s over TLS: %v, %s", p.name, err, config)
		}
	}
	if len(unused) > 0 {
		t.Errorf("files without a peer: %v", unused)
	}
}

// TestWorkloads: each workload has a unique name and queries, and each target has its workload.
func TestWorkloads(t *testing.T) {
	seen := map[string]bool{}
	for _, w := range workloads {
		if seen[w.Name] || w.Title == "" || w.before == nil || w.ask == nil && w.once {
			t.Errorf("%+v", w.Workload)
		}
		seen[w.Name] = true
	}
	for _, o := range result.Targets(result.Report{}) {
		if !seen[o.Workload] {
			t.Errorf("%s: %s", o.Workload, o.What)
		}
	}
}
