package lab

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"
)

// TestRawDHCP: NetworkManager accepts the lease, including options that dnsmasq would refuse to
// send.
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
	// NetworkManager writes resolv.conf a moment before it gives the link its address.
	l.Await("the offered address", func() bool { return strings.Contains(l.Run("ip", "-4", "addr", "show", "eth0"), "10.77.0.100/24") })
}

// FuzzReply: for any input, the reply is nothing or a complete message to the client.
func FuzzReply(f *testing.F) {
	const header = 236
	discover := append(append(make([]byte, header), magic...), 0, 53, 1, 1, 255)
	discover[0], discover[4] = 1, 7
	f.Add(discover)
	f.Add(discover[:header+6])
	f.Fuzz(func(t *testing.T, request []byte) {
		server := RawDHCP{Server: netip.MustParseAddr("10.77.0.1"), Client: netip.MustParseAddr("10.77.0.100"), Options: map[byte][]byte{15: []byte("x")}}
		reply := server.reply(request)
		if reply == nil {
			return
		}
		if !bytes.Equal(reply[4:8], request[4:8]) || !bytes.Equal(reply[header:header+4], magic) || reply[len(reply)-1] != 255 {
			t.Fatalf("%x is answered with %x", request, reply)
		}
	})
}
