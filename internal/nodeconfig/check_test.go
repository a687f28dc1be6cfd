package nodeconfig

import (
	"net/netip"
	"strings"
	"testing"
	"unicode"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// checkConfig checks the promises in the doc comments of Config, given the error of the same call.
func checkConfig(t *testing.T, c Config, err error) {
	t.Helper()
	if c.ClusterDomain.IsZero() && err == nil || c.ClusterDomain.IsRoot() {
		t.Errorf("cluster domain %q, %v", c.ClusterDomain, err)
	}
	for _, addr := range c.DNSIPs {
		if !addr.IsValid() || addr.IsMulticast() || addr.Zone() != "" || addr.Is4In6() {
			t.Errorf("DNSIPs %v", c.DNSIPs)
		}
	}
	if ip := c.NodeIP; ip != (netip.Addr{}) && (ip.IsUnspecified() || ip.IsMulticast() || ip.Is4In6()) {
		t.Errorf("node IP %v", ip)
	}
	if bind := c.DNSBindAddress; bind != (netip.AddrPort{}) && (!bind.IsValid() || bind.Port() == 0) {
		t.Errorf("bind address %v", bind)
	}
	checkServers(t, "DNSNameservers", c.DNSNameservers)
	checkServers(t, "Upstreams", c.Upstreams)
	checkServers(t, "ClusterDNS", c.ClusterDNS)
	for _, route := range c.Routes {
		if route.Domain.IsZero() || route.Domain.IsRoot() || len(route.Servers) == 0 {
			t.Errorf("route %v", route)
		}
		checkServers(t, "route", route.Servers)
	}
	for _, prefix := range append(append([]netip.Prefix{}, c.PodCIDRs...), c.ServiceCIDRs...) {
		if !prefix.IsValid() || prefix.Bits() == 0 || prefix != prefix.Masked() {
			t.Errorf("prefix %v", prefix)
		}
	}
	for _, a := range c.Listen.Addrs {
		if !a.IsValid() || a.Port() == 0 || a.Addr().IsUnspecified() || a.Addr().IsMulticast() {
			t.Errorf("listen %v", a)
		}
	}
	for _, path := range []string{c.DNSRecursiveResolvConf, c.MasterKubeConfig, c.KubeletResolvConf} {
		if strings.ContainsFunc(path, unicode.IsControl) {
			t.Errorf("path %q", path)
		}
	}
	if c.CacheSize < 0 || c.CacheSize > maxCacheSize || c.DNSForwardMax < 1 || c.DNSForwardMax > maxDNSForwardMax {
		t.Errorf("cacheSize %d, dnsForwardMax %d", c.CacheSize, c.DNSForwardMax)
	}
	for key, source := range c.Sources {
		if source.File == "" || source.Line < 1 {
			t.Errorf("source of %s: %v", key, source)
		}
	}
}

func checkServers(t *testing.T, what string, servers []nameserver.Server) {
	t.Helper()
	for _, s := range servers {
		again, err := nameserver.Parse(s.String())
		if err != nil || again != s || s.Addr.Port() == 0 || s.Addr.Addr().IsUnspecified() || s.Addr.Addr().IsMulticast() {
			t.Errorf("%s: %v (%v)", what, s, err)
		}
	}
}

// checkError checks that an error consists of complete faults.
func checkError(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		return
	}
	faults := Faults(err)
	if len(faults) == 0 || len(faults) > maxFaults+1 {
		t.Errorf("got %d faults in %v", len(faults), err)
	}
	if lines := strings.Count(err.Error(), "\n") + 1; lines != len(faults) {
		t.Errorf("got %d lines for %d faults: %v", lines, len(faults), err)
	}
	for _, f := range faults {
		if f.File == "" || f.Line < 1 || f.Column < 1 || f.Expected == "" || f.Got == "" {
			t.Errorf("incomplete fault %#v", f)
		}
		if strings.ContainsFunc(f.Error(), unicode.IsControl) || len(f.Error()) > 1000 {
			t.Errorf("error with control characters or more than 1000 bytes: %q", f.Error())
		}
	}
}
