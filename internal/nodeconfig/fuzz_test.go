package nodeconfig

import (
	"bytes"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// FuzzParse checks the promises of all three parsers: no panic, complete faults, a valid Config,
// and a placement that never forwards to itself.
func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"testdata/good/*.yaml", "testdata/bad/*.yaml", "../../packaging/*.yaml"} {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			f.Fatal(pattern, err)
		}
		for _, path := range paths {
			data, err := os.ReadFile(path)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
			f.Add([]byte(uncomment(string(data))))
		}
	}
	f.Add([]byte("a: &a {<<: [*a, {dnsIP: 1}]}\n<<: *a\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, parse := range []func(string, io.Reader) (Config, error){parseNodeConfig, parseKubelet, parseNodeDNS} {
			c, err := parse("dir/f", bytes.NewReader(data))
			checkConfig(t, c, err)
			checkError(t, err)
			checkPlacement(t, c)
		}
	})
}

func checkPlacement(t *testing.T, c Config) {
	t.Helper()
	node := netip.AddrFrom4([4]byte{10, 0, 0, 5})
	p := c.Place(Host{IsLocal: func(a netip.Addr) bool { return a == node || a.IsLoopback() }, NodeIP: node})
	if !p.Nameserver.IsValid() || p.Nameserver.IsLoopback() || p.Nameserver.IsUnspecified() {
		t.Errorf("nameserver %v", p.Nameserver)
	}
	for i, a := range p.Listen {
		if a.Addr().IsUnspecified() || a.Port() == 0 || slices.Contains(p.Listen[:i], a) {
			t.Errorf("listen %v", p.Listen)
		}
	}
	for _, server := range p.ClusterDNS {
		if slices.Contains(p.Listen, server.Addr) {
			t.Errorf("cluster DNS %v is among %v", server, p.Listen)
		}
	}
	for _, zone := range c.ReverseZones(p.ClusterDNS) {
		if zone.IsZero() || zone.IsRoot() {
			t.Errorf("reverse zone %q", zone)
		}
	}
}
