package doctor

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/dnsmasqconf"
	"github.com/node-dns/node-dns/internal/hostdns"
	"github.com/node-dns/node-dns/internal/netstate"
	"github.com/node-dns/node-dns/internal/nodeconfig"
	"github.com/node-dns/node-dns/internal/policy"
)

// TestConfigNode: with dnsmasq's port=5353, check-config reported that the daemon listens on port
// 53. doctor only looked at port 53 and reported that the daemon does not listen on the addresses
// of clusterListen.
func TestConfigNode(t *testing.T) {
	for _, test := range []struct{ name, nodeDNS, dnsmasq, listen, nameserver string }{
		{"no file", "", "", "10.0.0.7:53", "10.0.0.7"},
		{"dnsmasq's port", "", "port=5353\n", "10.0.0.7:5353", ""},
		{"another port", "listen: 10.0.0.7:5300\n", "", "10.0.0.7:5300", ""},
		{"listen wins over dnsmasq's port", "listen: 10.0.0.7\n", "port=5353\n", "10.0.0.7:53", "10.0.0.7"},
		{"clusterListen", "clusterListen: [0.0.0.0:8053]\n", "", "10.0.0.7:53 127.0.0.1:8053 10.0.0.7:8053", "10.0.0.7"},
		{"all", "listen: all\n", "", "every address of this node except loopback", "10.0.0.7"},
	} {
		root := t.TempDir()
		for path, text := range map[string]string{"/etc/node-dns/node-dns.yaml": test.nodeDNS, "/etc/dnsmasq.d/site.conf": test.dnsmasq} {
			path = filepath.Join(root, path)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		config, err := nodeconfig.Load(nodeconfig.DefaultPaths(root))
		if err != nil {
			t.Fatal(err)
		}
		files, err := dnsmasqconf.Load(dnsmasqconf.DefaultPaths(root))
		if err != nil {
			t.Fatal(err)
		}
		net := netstate.State{
			Addrs: []netstate.Addr{
				{Addr: netip.MustParseAddr("127.0.0.1"), Interface: "lo", Up: true}, {Addr: netip.MustParseAddr(nodeIP), Interface: "eth0", Up: true},
			},
			Default4: &netstate.DefaultRoute{Interface: "eth0", Source: netip.MustParseAddr(nodeIP)},
		}
		node := configNode(hostdns.Place(config, net, nil), policy.Listeners(config, files, net))
		if got := strings.Join(node.Listen, " "); got != test.listen || node.Nameserver != test.nameserver {
			t.Errorf("%s: got listeners %s and nameserver %q, want %s and %q", test.name, got, node.Nameserver, test.listen, test.nameserver)
		}
	}
}
