package hostdns

import (
	"net"
	"net/netip"
	"testing"

	"github.com/node-dns/node-dns/internal/nm"
	"github.com/node-dns/node-dns/internal/upstream"
)

// TestListens covers all kinds of sockets, open and closed.
func TestListens(t *testing.T) {
	for _, at := range []string{"127.0.0.1:0", "127.0.0.2:0", "0.0.0.0:0", "[::1]:0", "[::]:0", "[::ffff:127.0.0.1]:0"} {
		conn, err := net.ListenPacket("udp", at)
		if err != nil {
			t.Fatal(err)
		}
		port := conn.LocalAddr().(*net.UDPAddr).AddrPort().Port()
		asked := netip.MustParseAddrPort(at).Addr().Unmap()
		if asked.IsUnspecified() && asked.Is4() {
			asked = addr("127.0.0.1")
		} else if asked.IsUnspecified() {
			asked = addr("::1")
		}
		for _, open := range []bool{true, false} {
			if got := listens(netip.AddrPortFrom(asked, port)); got != open {
				t.Errorf("listens(%s) with the socket open %t is %t", at, open, got)
			}
			conn.Close()
		}
	}
}

// TestDeafLoopback: resolv.conf names 127.0.0.1, where nothing listens, and another server. The
// dead address became an upstream. A nameserver that is only restarting stays an upstream.
func TestDeafLoopback(t *testing.T) {
	conn, err := net.ListenPacket("udp", "127.0.0.77:53")
	if err != nil {
		t.Skip("needs root to bind port 53: ", err)
	}
	w := newTree(t, map[string]string{etcResolvConf: "nameserver 127.0.0.77\nnameserver 127.0.0.78\nnameserver 10.0.0.2\n"})
	look := func() upstream.Selection { return NewPlan(w.runner().Looker.Look(t.Context(), nm.Event{})).Selection }
	p := look()
	if got := serverList(Plan{Selection: p}); got != "127.0.0.77 10.0.0.2" {
		t.Errorf("upstreams %s", got)
	}
	if got := refusedList(Plan{Selection: p}); got != "127.0.0.78 (nothing listens there)" {
		t.Errorf("refused %s", got)
	}
	w.apply()
	conn.Close()
	if got := serverList(Plan{Selection: look()}); got != "127.0.0.77 10.0.0.2" {
		t.Errorf("while it restarts: got %s", got)
	}
	late, err := net.ListenPacket("udp", "127.0.0.78:53")
	if err != nil {
		t.Fatal(err)
	}
	defer late.Close()
	for _, what := range []string{"starts", "is captured"} {
		if got := serverList(Plan{Selection: look()}); got != "127.0.0.77 127.0.0.78 10.0.0.2" {
			t.Errorf("when the other %s: %s", what, got)
		}
		w.apply()
	}
}
