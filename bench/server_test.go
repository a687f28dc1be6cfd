package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/bench/result"
)

// TestUpstream: the nameserver behind the servers answers what the workloads count on.
func TestUpstream(t *testing.T) {
	s := compiled(t, "upstream")
	for _, test := range []struct{ name, ask, want string }{
		{"any name", "u0000001.m.example.com. A", "NOERROR A 192.0.2.80"},
		{"letters as they were asked", "WWW.Example.com. AAAA", "NOERROR AAAA 2001:db8::50"},
		{"another type", "www.example.com. MX", "NOERROR, SOA of www.example.com."},
		{"the root", ". NS", "NOERROR, SOA of ."},
		{"a service", "svc-9999.ns-99.svc.cluster.local. A", "NOERROR A 192.0.2.80"},
		{"a service has no such address", "svc-9999.ns-99.svc.cluster.local. AAAA", "NOERROR, SOA of cluster.local."},
		{"a namespace", "ns-99.svc.cluster.local. A", "NOERROR, SOA of cluster.local."},
		{"what namespaces are below", "SVC.Cluster.Local. A", "NOERROR, SOA of Cluster.Local."},
		{"the zone", "cluster.local. A", "NOERROR, SOA of cluster.local."},
		{"a search in a namespace", "google.com.ns-1.svc.cluster.local. A", "NXDOMAIN, SOA of cluster.local."},
		{"a search in all", "google.com.svc.cluster.local. A", "NXDOMAIN, SOA of cluster.local."},
		{"a search in the zone", "google.com.cluster.local. AAAA", "NXDOMAIN, SOA of cluster.local."},
		{"a search at the site", "google.com.corp.example.com. A", "NXDOMAIN, SOA of corp.example.com."},
		{"no label of the zone's name", "mycluster.local. A", "NOERROR A 192.0.2.80"},
	} {
		for _, transport := range []string{"udp", "tcp"} {
			edns := transport == "udp"
			t.Run(test.name+"/"+transport, func(t *testing.T) {
				name, qtype, _ := strings.Cut(test.ask, " ")
				query := new(dns.Msg).SetQuestion(name, dns.StringToType[qtype])
				if edns {
					query.SetEdns0(1232, false)
				}
				answer, _, err := (&dns.Client{Net: transport}).Exchange(query, s.address())
				if err != nil {
					t.Fatal(err)
				}
				if got := gist(answer); got != test.want {
					t.Errorf("%s, not %s", got, test.want)
				}
				if (answer.IsEdns0() != nil) != edns || !answer.RecursionAvailable || !answer.RecursionDesired || answer.Question[0] != query.Question[0] {
					t.Errorf("%v", answer)
				}
			})
		}
	}
}

// gist is what an answer says.
func gist(m *dns.Msg) string {
	code := dns.RcodeToString[m.Rcode]
	for _, rr := range m.Ns {
		return code + ", SOA of " + rr.(*dns.SOA).Hdr.Name
	}
	for _, rr := range m.Answer {
		return code + " " + dns.TypeToString[rr.Header().Rrtype] + " " + strings.TrimPrefix(rr.String(), rr.Header().String())
	}
	return code
}

// TestEcho: each query comes back as its own answer, over TCP when it comes in pieces too.
func TestEcho(t *testing.T) {
	s := compiled(t, result.Limit)
	query := new(dns.Msg).SetQuestion("www.example.com.", dns.TypeA)
	for _, transport := range []string{"udp", "tcp"} {
		answer, _, err := (&dns.Client{Net: transport}).Exchange(query, s.address())
		if err != nil || !answer.Response || len(answer.Answer) > 0 {
			t.Errorf("%s: %v, %v", transport, answer, err)
		}
	}
	conn, err := dns.Dial("tcp", s.address())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	packed, err := query.Pack()
	if err != nil {
		t.Fatal(err)
	}
	framed := append([]byte{0, byte(len(packed))}, packed...)
	two := append(framed, framed...)
	for _, piece := range [][]byte{two[:1], two[1:9], two[9 : len(framed)+3], two[len(framed)+3:]} {
		if _, err := conn.Conn.Write(piece); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if answer, err := conn.ReadMsg(); err != nil || !answer.Response {
			t.Errorf("in pieces: %v, %v", answer, err)
		}
	}
}

// compiled is one of the programs in C, which runs until the test's end.
func compiled(t *testing.T, name string) *server {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, name)
	argv := compiler(program, "c", name)
	if out, err := exec.Command(argv[0], append(argv[1:], "-Werror")...).CombinedOutput(); err != nil {
		t.Fatalf("%q: %v\n%s", argv, err, out)
	}
	p := place{programs: dir, root: "/", dir: dir, inRoot: dir}
	s, err := p.serve(peer{name: result.Limit, program: ofTree(name), argv: peers[0].argv}, 0, nil, "www.example.com")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.stop)
	return s
}
