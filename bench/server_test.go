package main

import (
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/bench/result"
)

// TestUpstream: the nameserver behind the servers gives the answers that the workloads rely on.
func TestUpstream(t *testing.T) {
	s := compiled(t, "upstream")
	for _, test := range []struct{ name, ask, want string }{
		{"any name", "u0000001.m.example.com. A", "NOERROR A 192.0.2.80"},
		{"letter case of the query", "WWW.Example.com. AAAA", "NOERROR AAAA 2001:db8::50"},
		{"another type", "www.example.com. MX", "NOERROR, SOA of www.example.com."},
		{"the root", ". NS", "NOERROR, SOA of ."},
		{"a service", "svc-9999.ns-99.svc.cluster.local. A", "NOERROR A 192.0.2.80"},
		{"a service has no such address", "svc-9999.ns-99.svc.cluster.local. AAAA", "NOERROR, SOA of cluster.local."},
		{"a namespace", "ns-99.svc.cluster.local. A", "NOERROR, SOA of cluster.local."},
		{"parent of the namespaces", "SVC.Cluster.Local. A", "NOERROR, SOA of Cluster.Local."},
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
					t.Errorf("got %s, want %s", got, test.want)
				}
				if (answer.IsEdns0() != nil) != edns || !answer.RecursionAvailable || !answer.RecursionDesired || answer.Question[0] != query.Question[0] {
					t.Errorf("%v", answer)
				}
			})
		}
	}
}

// gist returns a summary of an answer.
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

// TestEcho: each query comes back as its own answer, over TCP even if it arrives in pieces.
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

// TestDial: each query has its own connection, and counts as lost without a matching answer.
func TestDial(t *testing.T) {
	echo, upstream := compiled(t, result.Limit), compiled(t, "upstream")
	closing := listener(t, func(conn net.Conn) { conn.Close() })
	stranger := listener(t, func(conn net.Conn) {
		query := make([]byte, 512)
		if n, err := conn.Read(query); err == nil {
			query[3] ^= 1 // of the ID
			conn.Write(query[:n])
		}
	})
	dial := filepath.Join(testPlace(t, "dial").programs, "dial")
	file := filepath.Join(t.TempDir(), "queries")
	if err := os.WriteFile(file, []byte("www.example.com A\ngoogle.com.cluster.local A\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name      string
		port      int
		rate      string
		codes     []string
		latencies bool
	}{
		{"as fast as answers arrive", echo.port, "0", []string{"NOERROR"}, false},
		{"at a rate", echo.port, "200", []string{"NOERROR"}, true},
		{"two codes", upstream.port, "200", []string{"NOERROR", "NXDOMAIN"}, true},
		{"closed without an answer", closing, "200", nil, false},
		{"another query's answer", stranger, "200", nil, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			text, err := exec.Command(dial, file, strconv.Itoa(test.port), "20", test.rate, "0.3").Output()
			if err != nil {
				t.Fatal(err)
			}
			o, err := parseDnsperf(string(text))
			if err != nil {
				t.Fatal(err)
			}
			if o.sent == 0 || o.sent != o.completed+o.lost || (o.completed == 0) != (test.codes == nil) || o.completed != o.answered() {
				t.Errorf("%+v", o)
			}
			if codes := slices.Sorted(maps.Keys(o.codes)); !slices.Equal(codes, test.codes) {
				t.Errorf("got %q, want %q", codes, test.codes)
			}
			if (len(o.latencies) > 0) != test.latencies || test.latencies && int64(len(o.latencies)) != o.completed {
				t.Errorf("%d latencies for %d answers", len(o.latencies), o.completed)
			}
		})
	}
}

// listener starts a server that handles each connection with serve until the test ends, and returns
// its port.
func listener(t *testing.T, serve func(net.Conn)) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serve(conn)
		}
	}()
	return l.Addr().(*net.TCPAddr).Port
}

// TestAddresses: the echo server answers at each of its addresses.
func TestAddresses(t *testing.T) {
	s := compiledAt(t, result.Limit, 4)
	for _, address := range loopback(4) {
		for _, transport := range []string{"udp", "tcp"} {
			at := net.JoinHostPort(address, strconv.Itoa(s.port))
			if _, _, err := (&dns.Client{Net: transport}).Exchange(new(dns.Msg).SetQuestion("www.example.com.", dns.TypeA), at); err != nil {
				t.Errorf("%s %s: %v", address, transport, err)
			}
		}
	}
}

// compiled starts one of the C programs, which runs until the test ends.
func compiled(t *testing.T, name string) *server { return compiledAt(t, name, 1) }

func compiledAt(t *testing.T, name string, addresses int) *server {
	t.Helper()
	p := testPlace(t, name)
	s, err := p.serve(peer{name: result.Limit, program: ofTree(name), argv: peers[0].argv}, values{Addresses: loopback(addresses)}, nil, "www.example.com")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.stop)
	return s
}

// testPlace returns a place with these C programs.
func testPlace(t *testing.T, names ...string) place {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		argv := compiler(filepath.Join(dir, name), "c", name)
		if out, err := exec.Command(argv[0], append(argv[1:], "-Werror")...).CombinedOutput(); err != nil {
			t.Fatalf("%q: %v\n%s", argv, err, out)
		}
	}
	return place{programs: dir, root: "/", dir: dir, inRoot: dir}
}
