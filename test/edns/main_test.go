// Package edns sends the running daemon messages of every form, byte by byte, and checks the bytes
// of its responses against RFC 6891, RFC 8906 and related RFCs. Each message is sent to a daemon
// that does not know the answer and to one that has cached it, over UDP and TCP. The daemon has
// several code paths for answers, and they must agree.
package edns

import (
	"net/netip"
	"runtime"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/node-dns/node-dns/internal/test/daemontest"
	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/internal/test/lab"
)

func TestMain(m *testing.M) {
	lab.Overlap(8)                                                     // rows without an answer take seconds, and so does the end of many daemons
	runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 2*daemontest.Receivers) // like cmd/node-dns
	goleak.VerifyTestMain(m)
}

// serve runs the daemon in front of an upstream nameserver.
func serve(t *testing.T, upstream *dnstest.Server) netip.AddrPort {
	t.Helper()
	return daemontest.Run(t, "clusterDomain: cluster.test\nkubeconfig: none\n", upstream.Addr())
}

// world is the zone data of the upstream nameserver. Tests query unique names below t.example.
var world = `
. 300 IN SOA ns.example. hostmaster.example. 1 3600 600 86400 300
. 300 IN NS ns.example.
t.example. 300 IN SOA ns.example. hostmaster.example. 1 3600 600 86400 300
*.t.example. 300 IN A 192.0.2.1
*.t.example. 300 IN TYPE666 \# 3 00ff20
*.t.example. 300 IN TYPE65279 \# 0
*.t.example. 300 IN TXT "text"
*.signed.t.example. 300 IN A 192.0.2.2
*.signed.t.example. 300 IN RRSIG A 13 3 300 20380101000000 20200101000000 1 t.example. c2lnbmF0dXJl
*.none.t.example. 300 IN TXT "of another type"
` + addresses("twenty", 20) + addresses("sixty", 60) + addresses("hundred", 100) + addresses("ninehundred", 900)

// addresses returns n address records for names below name.
func addresses(name string, n int) string {
	var text strings.Builder
	for i := range n {
		addr := netip.AddrFrom4([4]byte{198, 18, byte(i >> 8), byte(i)})
		text.WriteString("*." + name + ".t.example. 300 IN A " + addr.String() + "\n")
	}
	return text.String()
}
