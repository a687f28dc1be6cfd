package hostdns

import (
	"strings"
	"testing"
	"time"

	"github.com/node-dns/node-dns/internal/nm"
	"github.com/node-dns/node-dns/internal/upstream"
)

// TestLacking: when the network offered no usable upstream, node-dns queried the last good ones
// forever without a warning.
func TestLacking(t *testing.T) {
	ours := withResolvConf(file(oursText))
	tests := []struct {
		name    string
		options []option
		want    string // "" if nothing is lacking
	}{
		{"the own address alone", []option{withNetworkManager(dnsConfig("eth0", nodeIP, ""))}, "NetworkManager eth0 (System eth0) names " + nodeIP + ": this node: would loop"},
		{"none: ignore-auto-dns", []option{withNetworkManager()}, "NetworkManager lists no nameserver"},
		{"all invalid", []option{withNetworkManager(nm.DNSConfig{Interface: "eth0", Invalid: []string{`"x"`}})}, `NetworkManager names "x": not a nameserver's address`},
		{"the network offers some", []option{withNetworkManager(dnsConfig("eth0", "10.0.0.8", ""))}, ""},
		{"without NetworkManager last-good is normal", nil, ""},
		{"not connected yet", []option{withNetworkManager(), withoutDefaultRoute()}, ""},
		{"an admin's servers are asked", []option{withNetworkManager(), withAdmin("198.51.100.1", "")}, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := host(append([]option{withCaptured(sys), ours}, test.options...)...)
			began := s.Now
			s = after(s, NewPlan(s).Steps(true))
			s.Now = began.Add(time.Hour)
			p := NewPlan(s)
			if len(p.Steps(true)) > 0 {
				t.Errorf("the next run has steps: %s", describe(p, p.Steps(true)))
			}
			want := ""
			if test.want != "" {
				want = "the network offers no usable nameserver since 2026-11-21T04:05:06Z (" + test.want + "); using the last good ones: 10.0.0.2 10.0.0.3"
			}
			if p.Lacking != want || s.IsLacking() != (want != "") {
				t.Errorf("got %t, %q, want\n%q", s.IsLacking(), p.Lacking, want)
			}
			s.NetworkManager = host(withNetworkManager(dnsConfig("eth0", sys, ""))).NetworkManager
			s = after(s, NewPlan(s).Steps(true))
			if p := NewPlan(s); p.Lacking != "" || s.IsLacking() || strings.Contains(string(s.Record.Data), "lacking") {
				t.Errorf("when it offers servers again: got %q\n%s", p.Lacking, s.Record.Data)
			}
		})
	}
	record := upstream.Record{Lacking: "x", Since: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)}
	if got, err := upstream.ParseRecord(record.Bytes()); err != nil || got.Lacking != "x" || !got.Since.Equal(record.Since.Truncate(time.Second)) {
		t.Errorf("%v, %v", got, err)
	}
}

// TestLackingFile: after a typo in the admin's resolv.conf, node-dns queried the earlier servers
// forever without a warning.
func TestLackingFile(t *testing.T) {
	const no = ": not a nameserver's address"
	none := func(s *State) {
		withNetworkManager(dnsConfig("eth0", "10.0.1.1", ""))(s)
		withMode("none", "symlink")(s)
	}
	tests := []struct {
		name   string
		option option
		text   string // what the admin writes over our file
		want   string // "" if nothing is lacking
	}{
		{"a typo", none, "nameserver 10.0.0.\n", `/etc/resolv.conf names "10.0.0."` + no},
		{"a typo, in place", none, Watermark + "\nnameserver 10.0.0.\n", `/etc/resolv.conf names "10.0.0."` + no},
		{"a typo, without NetworkManager", func(*State) {}, "nameserver 10.0.0.\n", `/etc/resolv.conf names "10.0.0."` + no},
		{"a typo, NetworkManager has no nameserver", withNetworkManager(), "nameserver 10.0.0.\n", `/etc/resolv.conf names "10.0.0."` + no},
		{"a multicast address and a typo", none, "nameserver 224.0.0.251\nnameserver x\n", `/etc/resolv.conf names "x"` + no + "; /etc/resolv.conf names 224.0.0.251: multicast address"},
		{"nothing listens there", func(s *State) { none(s); withDeaf("127.0.0.1:53")(s) }, "nameserver 127.0.0.1\n", "/etc/resolv.conf names 127.0.0.1: nothing listens there"},
		{"a typo next to a valid server", none, "nameserver 10.0.0.\nnameserver 10.0.0.8\n", ""},
		{"no nameserver", none, "search example.com\n", ""},
		{"a copy of ours", none, "nameserver " + nodeIP + "\n", ""},
		{"systemd-resolved's stub", none, stubText, ""},
		{"NetworkManager is the source", withNetworkManager(dnsConfig("eth0", "10.0.1.1", "")), "nameserver 10.0.0.\n", ""},
		{"an admin's servers are asked", func(s *State) { none(s); withAdmin("198.51.100.1", "")(s) }, "nameserver 10.0.0.\n", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(withResolvConf(file("nameserver 10.0.0.2\nnameserver 10.0.0.3\n")), withRecord(upstream.ResolvConf, "", upstream.Set{Servers: servers(sys)}), test.option)
			w.run()
			began := w.Now
			w.ResolvConf = file(test.text)
			want := ""
			if test.want != "" {
				want = "/etc/resolv.conf names no usable nameserver since 2026-11-21T04:05:06Z (" + test.want + "); using the last good ones: 10.0.0.2 10.0.0.3"
			}
			for _, run := range []string{"first", "second"} {
				p := w.run()
				if p.Lacking != want || w.IsLacking() != (want != "") {
					t.Errorf("%s run: %t, %q, want\n%q", run, w.IsLacking(), p.Lacking, want)
				}
				w.Now = began.Add(time.Hour)
			}
			if p := NewPlan(w.State); len(p.Steps(true)) > 0 {
				t.Errorf("the third run has steps: %s", describe(p, p.Steps(true)))
			}
			w.ResolvConf = file("nameserver 10.0.0.2\nnameserver 10.0.0.3\n")
			w.run()
			if p := w.run(); p.Lacking != "" || w.IsLacking() {
				t.Errorf("when the file names servers again: got %q\n%s", p.Lacking, w.Record.Data)
			}
		})
	}
}
