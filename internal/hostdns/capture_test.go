package hostdns

import (
	"errors"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/upstream"
)

// TestUpstreamFileIsShared: a file with the same meaning stays as it is, because dnsmasq and the
// admin use it too.
func TestUpstreamFileIsShared(t *testing.T) {
	const want = "server=10.0.0.2\nserver=10.0.0.3\n"
	tests := []struct {
		name string
		file File
		want string // after the plan
	}{
		{"missing", File{}, want},
		{"the same", file(want), want},
		{"comments, CRLF, no final newline", file("# site\r\n\r\nserver=10.0.0.2\r\nserver = 10.0.0.3"), "# site\r\n\r\nserver=10.0.0.2\r\nserver = 10.0.0.3"},
		{"each server twice", file(want + want), want + want},
		{"the same, readable for root alone", File{Exists: true, Data: []byte("# site\n" + want), Mode: 0o600}, "# site\n" + want},
		{"another order", file("server=10.0.0.3\nserver=10.0.0.2\n"), want},
		{"one more", file(want + "server=10.0.0.4\n"), want},
		{"an unknown route", file(want + "server=/corp.example/10.9.9.9\n"), want},
		{"an invalid line", file(want + "no-resolv\n"), want},
		{"emptied", file(""), want},
		{"a link", link("/elsewhere", want), want},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := host(withResolvConf(file(oursText)), withNetworkManager(dnsConfig("eth0", sys, "")), withUpstreams(test.file))
			next := after(s, NewPlan(s).Capture)
			if got := next.Upstreams; string(got.Data) != test.want || got.Mode != 0o644 || got.Link != "" {
				t.Errorf("%q, mode %v, link %q", got.Data, got.Mode, got.Link)
			}
			checkLaws(t, s)
		})
	}
}

// TestNodeResolvConf: the kubelet and the node's DNS read this file for pods. After a change to
// nameservers over TLS, it still named the earlier servers, which the admin had replaced. Later it
// named none, and a pod queried itself. With only nameservers in it, pods lost the site's search
// domain. Loopback addresses and zones of other links are useless to a pod.
func TestNodeResolvConf(t *testing.T) {
	const quad9, none = "dns+tls://9.9.9.9#dns.quad9.net", noneForPods + "\nnameserver " + nodeIP + "\n"
	const search = "search example.com\n"
	tests := []struct {
		name      string
		upstreams string
		file      File
		want      string
		admin     option // nil if no upstreams are configured
	}{
		{"missing", sys, File{}, "nameserver 10.0.0.2\nnameserver 10.0.0.3\n" + search, nil},
		{"of an earlier version", sys, file("nameserver 10.0.0.2\nnameserver 10.0.0.3\n"), "nameserver 10.0.0.2\nnameserver 10.0.0.3\n" + search, nil},
		{"everything else is kept", sys, file("# mine\nsearch a.example\nnameserver 10.0.0.9\nsortlist 10.0.0.0\noptions ndots:1\n"), "# mine\n" + search + "nameserver 10.0.0.2\nnameserver 10.0.0.3\nsortlist 10.0.0.0\n", nil},
		{"TLS and plain", quad9 + " 10.0.0.2", File{}, "nameserver 10.0.0.2\n" + search, nil},
		{"TLS alone", quad9, File{}, none + search, nil},
		{"TLS alone, after plain ones", quad9, file("search a.example\nnameserver 10.0.0.9\n"), noneForPods + "\n" + search + "nameserver " + nodeIP + "\n", nil},
		{"TLS alone, of an earlier version", quad9, file(noneForPods + "\n"), none + search, nil},
		{"plain ones again", sys, file(none + search), "nameserver 10.0.0.2\nnameserver 10.0.0.3\n" + search, nil},
		{"another port", "10.0.0.2#5353", file("nameserver 10.0.0.9\n"), none + search, nil},
		{"loopback", "127.0.0.1 ::1 10.0.0.2", File{}, "nameserver 10.0.0.2\n" + search, nil},
		{"loopback alone", "127.0.0.1", file("nameserver 127.0.0.1\n"), none + search, nil},
		{"another link's zone", "fe80::1%eth0 2001:db8::2", File{}, "nameserver 2001:db8::2\n" + search, nil},
		{"a link's zone alone", "fe80::1%eth0", File{}, none + search, nil},
		// With the admin's servers over TLS, pods queried DHCP's servers in plain text.
		{"node-dns.yaml's over TLS", sys, File{}, none + search, withAdmin(quad9, "")},
		{"node-dns.yaml's over TLS, after plain ones", sys, file("nameserver 10.0.0.2\nnameserver 10.0.0.3\n" + search), none + search, withAdmin(quad9, "")},
		{"node-dns.yaml's", sys, File{}, "nameserver 10.0.0.7\n" + search, withAdmin("10.0.0.7 "+quad9, "")},
		{"node-dns.yaml's, this node", sys, File{}, none + search, withAdmin(nodeIP, "")},
		{"node-config.yaml's", sys, File{}, "nameserver 10.0.0.2\nnameserver 10.0.0.3\n" + search, withAdmin("", "10.0.0.7")},
		{"a cloud's link-local IPv4 address is routed for pods", "169.254.169.253", File{}, "nameserver 169.254.169.253\n" + search, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := host(withResolvConf(file(oursText)), withNetworkManager(dnsConfig("eth0", test.upstreams, "")), withNodeResolvConf(test.file))
			if test.admin != nil {
				test.admin(&s)
			}
			next := after(s, NewPlan(s).Capture)
			if got := string(next.NodeResolvConf.Data); got != test.want {
				t.Errorf("got\n%swant\n%s", got, test.want)
			}
			checkLaws(t, s)
		})
	}
}

// TestNodeResolvConfOptions: the options are those of the host's own file.
func TestNodeResolvConfOptions(t *testing.T) {
	const text = "# Generated by NetworkManager\nsearch cluster.local a.example b.example\nnameserver 10.0.0.2\noptions timeout:1 rotate\n"
	s := host(withResolvConf(file(text)), withNetworkManager(dnsConfig("eth0", "10.0.0.2", "")))
	const want = "nameserver 10.0.0.2\nsearch a.example b.example\noptions timeout:1 rotate\n"
	for _, what := range []string{"new", "pointed here"} {
		next := after(s, NewPlan(s).Steps(true))
		if got := string(next.NodeResolvConf.Data); got != want {
			t.Errorf("%s: got\n%swant\n%s", what, got, want)
		}
		s = next
	}
}

// TestNodeNotLastGood: if the node resolv.conf names an earlier address of this node, that is not
// an upstream.
func TestNodeNotLastGood(t *testing.T) {
	s := host(withNodeResolvConf(file(noneForPods+"\nnameserver 192.168.122.77\n")), withResolvConf(file(oursText)))
	if known := lastGood(&s); !known.Set.IsEmpty() {
		t.Errorf("last good: %+v", known.Set)
	}
}

// TestReadableAgain: an earlier version or an admin had created the record and the saved original
// with modes that kept the daemon from reading them, and no run fixed that.
func TestReadableAgain(t *testing.T) {
	all := []string{etcUpstreams, etcNode, varOriginal, varRecord}
	for _, test := range []struct {
		name  string
		spoil func(w *tree)
	}{
		{"nothing else to do", func(*tree) {}},
		{"no upstream is known any more", func(w *tree) {
			for _, path := range []string{etcUpstreams, etcNode, varRecord} {
				w.put(path, "")
			}
		}},
		{"silent", func(w *tree) { w.silent = true }},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newTree(t, map[string]string{etcResolvConf: generated})
			w.apply()
			test.spoil(w)
			before := w.files()
			for _, path := range all {
				w.chmod(path, 0o600)
			}
			w.apply()
			for path, file := range w.files() {
				if !strings.HasPrefix(file, "-rw-r--r-- ") {
					t.Errorf("%s: %s", path, file)
				} else if path != etcResolvConf && file != before[path] {
					t.Errorf("%s was %s and is %s", path, before[path], file)
				}
			}
			if r := w.apply(); len(r.Written) > 0 {
				t.Errorf("the second run wrote %s", w.written(r))
			}
		})
	}
}

// TestUnreadableIsNotReplaced: the content of such files is unknown.
func TestUnreadableIsNotReplaced(t *testing.T) {
	broken := File{Exists: true, Err: errors.New("input/output error")}
	s := host(withResolvConf(broken), withUpstreams(broken), withNodeResolvConf(broken), withRecordFile(broken), withNetworkManager(dnsConfig("eth0", sys, "")))
	if p := NewPlan(s); len(p.Steps(true))+len(p.Steps(false)) > 0 {
		t.Errorf("got the steps\n%s", describe(p, p.Steps(true)))
	}
}

func TestCaptured(t *testing.T) {
	record := func(origin upstream.Origin, detail, list string) File {
		return file(string(upstream.Record{Set: upstream.Set{Servers: servers(list)}, Origin: origin, Detail: detail}.Bytes()))
	}
	const quad9 = "dns+tls://9.9.9.9#dns.quad9.net"
	tests := []struct {
		name              string
		upstreams, record File
		servers, from     string
	}{
		{name: "nothing"},
		{name: "as the run left them", upstreams: file("server=10.0.0.2\n"), record: record(upstream.NetworkManager, "eth0 (x)", "10.0.0.2"), servers: "10.0.0.2", from: "NetworkManager eth0 (x)"},
		{name: "with one that the file cannot hold", upstreams: file("server=10.0.0.2\n"), record: record(upstream.NetworkManager, "", quad9+" 10.0.0.2"), servers: quad9 + " 10.0.0.2", from: "NetworkManager"},
		{name: "the file was edited", upstreams: file("server=10.8.8.8\n"), record: record(upstream.NetworkManager, "eth0", "10.0.0.2"), servers: "10.8.8.8", from: "/etc/dnsmasq.d/origin-upstream-dns.conf"},
		{name: "the file was emptied", upstreams: file("\n"), record: record(upstream.Event, "eth0", "10.0.0.2"), servers: "10.0.0.2", from: "event eth0"},
		{name: "no record", upstreams: file("server=10.0.0.2\n"), servers: "10.0.0.2", from: "/etc/dnsmasq.d/origin-upstream-dns.conf"},
		{name: "a damaged record", upstreams: file("server=10.0.0.2\n"), record: file("{"), servers: "10.0.0.2", from: "/etc/dnsmasq.d/origin-upstream-dns.conf"},
		{name: "neither can be used", upstreams: file("x\n"), record: file("{")},
		{name: "no dnsmasq", record: record(upstream.NetworkManager, "eth0", "10.0.0.2"), servers: "10.0.0.2", from: "NetworkManager eth0"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := Captured(test.upstreams, test.record)
			if list := serverList(Plan{Selection: upstream.Selection{Set: got.Set}}); list != test.servers || got.From != test.from {
				t.Errorf("%q from %q", list, got.From)
			}
		})
	}
}
