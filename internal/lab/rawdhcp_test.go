package lab

import (
	"net/netip"
	"strings"
	"testing"
)

// NetworkManager takes the lease, and what dnsmasq would refuse to send.
func TestRawDHCP(t *testing.T) {
	l := New(t)
	l.Bus()
	l.NetworkManager()
	srv := l.Namespace("srv")
	l.Veth("eth0", srv, "srv0")
	srv.Run("ip", "addr", "add", "10.77.0.1/24", "dev", "srv0")
	RawDHCP{
		Link: "srv0", Server: netip.MustParseAddr("10.77.0.1"), Client: netip.MustParseAddr("10.77.0.100"),
		Options: map[byte][]byte{6: {10, 77, 0, 53}, 15: []byte("two words")},
	}.Serve(srv)
	l.Nmcli("connection", "add", "type", "ethernet", "ifname", "eth0", "con-name", "wired")
	l.Await("the lease", func() bool {
		text := l.ReadFile("/etc/resolv.conf")
		return strings.Contains(text, "search two words\n") && strings.Contains(text, "nameserver 10.77.0.53\n")
	})
	if got := l.Run("ip", "-4", "addr", "show", "eth0"); !strings.Contains(got, "10.77.0.100/24") {
		t.Errorf("the address is not the offered one:\n%s", got)
	}
}
