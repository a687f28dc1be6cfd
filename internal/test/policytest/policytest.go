// Package policytest has the host and the configurations from which tests make a Policy.
package policytest

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/dns/forward"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/dnsmasqconf"
	"github.com/node-dns/node-dns/internal/netstate"
	"github.com/node-dns/node-dns/internal/nodeconfig"
)

// Node returns the network of a node: its default route is on eth0 with 192.0.2.10, and eth1 has
// 10.128.0.1.
func Node() netstate.State {
	eth0 := netip.MustParseAddr("192.0.2.10")
	return netstate.State{
		Addrs: []netstate.Addr{
			{Addr: netip.MustParseAddr("127.0.0.1"), Interface: "lo", Bits: 8, Up: true},
			{Addr: eth0, Interface: "eth0", Up: true},
			{Addr: netip.MustParseAddr("10.128.0.1"), Interface: "eth1", Up: true},
			{Addr: netip.MustParseAddr("2001:db8::1"), Interface: "eth0", Up: true, Tentative: true},
		},
		Default4: &netstate.DefaultRoute{Interface: "eth0", Source: eth0},
	}
}

// Servers parses nameservers, and panics if one is malformed.
func Servers(texts ...string) []nameserver.Server {
	var all []nameserver.Server
	for _, text := range texts {
		all = append(all, nameserver.MustParse(text))
	}
	return all
}

// Config loads a node-dns.yaml and a node-config.yaml. If a text is empty, its file does not exist.
// The sources in the result name the files without the test's directory.
func Config(t testing.TB, nodeDNS, nodeConfig string) nodeconfig.Config {
	t.Helper()
	root := t.TempDir()
	paths := nodeconfig.DefaultPaths(root)
	write(t, paths.NodeDNS, nodeDNS)
	write(t, paths.NodeConfig, nodeConfig)
	config, err := nodeconfig.Load(paths)
	if err != nil {
		t.Fatal(err)
	}
	for key, source := range config.Sources {
		source.File = strings.TrimPrefix(source.File, root)
		config.Sources[key] = source
	}
	return config
}

// Dnsmasq loads a dnsmasq.conf. The places of its servers name the file without the test's
// directory.
func Dnsmasq(t testing.TB, text string) dnsmasqconf.Config {
	t.Helper()
	root := t.TempDir()
	write(t, filepath.Join(root, "/etc/dnsmasq.conf"), text)
	config, err := dnsmasqconf.Load(dnsmasqconf.DefaultPaths(root))
	if err != nil {
		t.Fatal(err)
	}
	for i := range config.Servers {
		config.Servers[i].Place.File = "/etc/dnsmasq.conf"
	}
	return config
}

// RouteText formats routes as "example.=192.0.2.1,192.0.2.2 .=10.0.0.2", with "//=10.0.0.3" for the
// route of plain names.
func RouteText(routes []forward.Route) string {
	var words []string
	for _, route := range routes {
		domain := route.Domain.String()
		if route.Plain {
			domain = "//"
		}
		var servers []string
		for _, server := range route.Servers {
			servers = append(servers, server.String())
		}
		words = append(words, domain+"="+strings.Join(servers, ","))
	}
	return strings.Join(words, " ")
}

// AddrText returns the addresses, separated by blanks.
func AddrText(addrs []netip.AddrPort) string {
	var words []string
	for _, addr := range addrs {
		words = append(words, addr.String())
	}
	return strings.Join(words, " ")
}

// write writes a file, unless text is empty.
func write(t testing.TB, path, text string) {
	t.Helper()
	if text == "" {
		return
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
