package hostdns

import (
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/nm"
	"github.com/node-dns/node-dns/internal/upstream"
)

// sources returns which source named which servers, as in the record for the daemon.
func sources(t *testing.T, s State) string {
	t.Helper()
	record, err := upstream.ParseRecord(s.Record.Data)
	if err != nil {
		t.Fatal(err)
	}
	said := []string{strings.TrimSpace(string(record.Origin) + " " + record.Detail)}
	for _, route := range record.Routes {
		said = append(said, route.Domain.String()+" "+route.Source)
	}
	return strings.Join(said, "; ")
}

// TestWhoSetIt: with a VPN's nameserver as the only upstream, the record said "eth0 (System eth0)",
// and so did each route, regardless of its source. "Who set this server?" was the most common
// question about the program that node-dns replaces.
func TestWhoSetIt(t *testing.T) {
	eth0, vpn := dnsConfig("eth0", sys, "example.com"), vpnConfig("tun0", "172.16.0.53", "~corp.example")
	all := vpnConfig("tun0", "10.7.0.2", "")
	all.Priority = -50
	section := nm.DNSConfig{Global: true, Nameservers: servers("10.5.0.1")}
	split := dnsConfig("", "10.6.0.1", "lab.example")
	split.Global = true
	tests := []struct {
		name    string
		configs []nm.DNSConfig
		want    string
	}{
		{"a VPN's route", []nm.DNSConfig{vpn, eth0}, "NetworkManager eth0 (System eth0); corp.example. NetworkManager tun0 (System tun0)"},
		{"a VPN for all names", []nm.DNSConfig{all, eth0}, "NetworkManager tun0 (System tun0)"},
		{"a second link's route", []nm.DNSConfig{eth0, dnsConfig("eth1", "10.99.0.2", "lan.example")}, "NetworkManager eth0 (System eth0); lan.example. NetworkManager eth1 (System eth1)"},
		{"global-dns", []nm.DNSConfig{section, split, eth0}, "NetworkManager global-dns (NetworkManager.conf); lab.example. NetworkManager global-dns (NetworkManager.conf)"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := host(withNetworkManager(test.configs...), withResolvConf(file(oursText)))
			s = after(s, NewPlan(s).Steps(true))
			if got := sources(t, s); got != test.want {
				t.Errorf("the record says %q, want %q", got, test.want)
			}
			if steps := NewPlan(s).Steps(true); len(steps) > 0 {
				t.Errorf("the next run has steps: %v", steps)
			}
		})
	}
}

// TestSourceOfOldRecord: a record of an earlier version has no sources. It holds the same servers,
// so the cache stays, and it is written once more with the sources. A last-good list keeps them.
func TestSourceOfOldRecord(t *testing.T) {
	const old = `{"version":1,"servers":["10.0.0.2","10.0.0.3"],"routes":[{"domain":"corp.example.","servers":["172.16.0.53"]}],` +
		`"origin":"NetworkManager","detail":"eth0 (System eth0)","time":"2026-01-01T00:00:00Z","pointed":["192.168.122.50"]}`
	eth0, vpn := dnsConfig("eth0", sys, "example.com"), vpnConfig("tun0", "172.16.0.53", "~corp.example")
	s := host(withNetworkManager(vpn, eth0), withResolvConf(file(oursText)), withRecordFile(file(old)), withoutDnsmasq())
	p := NewPlan(s)
	if p.Change != Same {
		t.Errorf("change %q, want %q: the cache would be flushed", p.Change, Same)
	}
	s = after(s, p.Steps(true))
	const want = "NetworkManager eth0 (System eth0); corp.example. NetworkManager tun0 (System tun0)"
	if got := sources(t, s); got != want {
		t.Errorf("the record says %q, want %q", got, want)
	}
	s.NetworkManager = nil
	s = after(s, NewPlan(s).Steps(true))
	if got := sources(t, s); got != want {
		t.Errorf("without NetworkManager the record says %q, want %q", got, want)
	}
	if got := NewPlan(s).Selection.Set.Routes; len(got) != 1 || got[0].Source != "NetworkManager tun0 (System tun0)" {
		t.Errorf("last-good has the routes %v", got)
	}
}
