package nm

import (
	"fmt"
	"strings"
	"testing"

	"github.com/godbus/dbus/v5"
	"github.com/google/go-cmp/cmp"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

func serversOf(texts string) []nameserver.Server {
	return config("eth0", 0, texts, "").Nameservers
}

// static is a configuration whose profile sets some of its servers.
func static(iface string, priority int, byHand, all string) DNSConfig {
	c := config(iface, priority, all, "")
	c.Connection = "System " + iface
	c.setStatic(serversOf(byHand))
	return c
}

// TestStaticFirst: an admin's servers of a connection come before those of DHCP and router
// advertisements, and the mixture is reported. dns-priority and the order of interfaces do not
// change.
func TestStaticFirst(t *testing.T) {
	tests := []struct {
		name     string
		configs  []DNSConfig
		onRoute  string
		defaults string
		mixed    []string
	}{
		{name: "all from DHCP", configs: []DNSConfig{static("eth0", 100, "", "10.0.0.2 10.0.0.3")}, onRoute: "eth0", defaults: "10.0.0.2 10.0.0.3"},
		{name: "all static", configs: []DNSConfig{static("eth0", 100, "10.0.0.2 10.0.0.3", "10.0.0.2 10.0.0.3")}, onRoute: "eth0", defaults: "10.0.0.2 10.0.0.3"},
		{
			name:    "one static server added to DHCP",
			configs: []DNSConfig{static("eth0", 100, "192.0.2.53", "10.0.0.2 192.0.2.53 10.0.0.3")}, onRoute: "eth0",
			defaults: "192.0.2.53 10.0.0.2 10.0.0.3", mixed: []string{"eth0 (System eth0): 192.0.2.53 before 10.0.0.2 10.0.0.3"},
		},
		{
			name:    "static server that DHCP offers too",
			configs: []DNSConfig{static("eth0", 100, "10.0.0.3", "10.0.0.3 10.0.0.2")}, onRoute: "eth0",
			defaults: "10.0.0.3 10.0.0.2", mixed: []string{"eth0 (System eth0): 10.0.0.3 before 10.0.0.2"},
		},
		{
			name:    "static IPv4, IPv6 from the router",
			configs: []DNSConfig{static("eth0", 100, "192.0.2.53", "192.0.2.53"), static("eth0", 100, "", "fd77::1")}, onRoute: "eth0",
			defaults: "192.0.2.53 fd77::1", mixed: []string{"eth0 (System eth0): 192.0.2.53 before fd77::1"},
		},
		{
			name:    "static IPv6, IPv4 from DHCP",
			configs: []DNSConfig{static("eth0", 100, "", "10.0.0.2"), static("eth0", 100, "2001:db8::53", "2001:db8::53 fd77::1")}, onRoute: "eth0",
			defaults: "2001:db8::53 10.0.0.2 fd77::1", mixed: []string{"eth0 (System eth0): 2001:db8::53 before 10.0.0.2 fd77::1"},
		},
		{
			name:    "priority wins over static",
			configs: []DNSConfig{static("eth0", 50, "", "10.0.0.2"), static("eth0", 100, "2001:db8::53", "2001:db8::53")}, onRoute: "eth0",
			defaults: "10.0.0.2 2001:db8::53", mixed: []string{"eth0 (System eth0): 2001:db8::53 before 10.0.0.2"},
		},
		{
			name:    "better interface first, even before static servers",
			configs: []DNSConfig{static("eth0", 100, "", "10.0.0.2"), static("eth1", 100, "192.0.2.53", "192.0.2.53")}, onRoute: "eth0 eth1",
			defaults: "10.0.0.2 192.0.2.53",
		},
		{
			name:    "without a default route no server is queried or reported",
			configs: []DNSConfig{static("eth0", 100, "", "10.0.0.2"), static("eth1", 100, "192.0.2.53", "192.0.2.53 10.9.0.1")}, onRoute: "eth0",
			defaults: "10.0.0.2",
		},
		{
			name:    "the global configuration overrides all",
			configs: []DNSConfig{global("10.5.0.1", ""), static("eth0", 100, "192.0.2.53", "192.0.2.53 10.0.0.2")}, onRoute: "eth0",
			defaults: "10.5.0.1",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := Snapshot{Configs: tt.configs}
			defaults, _ := s.Upstreams(strings.Fields(tt.onRoute))
			if got := join(defaults.Servers); got != tt.defaults {
				t.Errorf("defaults %s, want %s", got, tt.defaults)
			}
			var mixed []string
			for _, m := range s.Mixed(strings.Fields(tt.onRoute)) {
				mixed = append(mixed, fmt.Sprintf("%s (%s): %s before %s", m.Interface, m.Connection, join(m.Static), join(m.Automatic)))
			}
			if diff := cmp.Diff(tt.mixed, mixed); diff != "" {
				t.Errorf("mixed (-want +got):\n%s", diff)
			}
		})
	}
}

// TestStaticWithName: a server with a name did not count as static, so that DHCP's came first.
func TestStaticWithName(t *testing.T) {
	settings := map[string]map[string]dbus.Variant{
		"ipv4": {"dns-data": dbus.MakeVariant([]string{"192.0.2.53#dns.example", "10.0.0.2", "dns+tls://9.9.9.9#dns.quad9.net"})},
		"ipv6": {"dns-data": dbus.MakeVariant([]string{"2001:db8::53#dns.example"})},
	}
	if got, want := join(staticServers(settings, "eth0")), "192.0.2.53 10.0.0.2 dns+tls://9.9.9.9#dns.quad9.net 2001:db8::53"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
