// Package edns asks the running daemon, octet by octet, what RFC 6891, RFC 8906 and their neighbours have a nameserver do with
// messages of every form, and judges the octets that come back. Each message is sent to a daemon that does not know the answer
// and to one that remembers it, over UDP and over TCP: it has several ways to answer, and they must agree.
package edns

import (
	"context"
	"net/netip"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/node-dns/node-dns/internal/atomicfile"
	"github.com/node-dns/node-dns/internal/control"
	"github.com/node-dns/node-dns/internal/daemon"
	"github.com/node-dns/node-dns/internal/dnstest"
	"github.com/node-dns/node-dns/internal/hostdns"
	"github.com/node-dns/node-dns/internal/lab"
	"github.com/node-dns/node-dns/internal/nameserver"
	"github.com/node-dns/node-dns/internal/netstate"
	"github.com/node-dns/node-dns/internal/nm"
)

// receivers are those of the daemon: more than one, as on a node, so that queries go by the ways that they go there.
const receivers = 2

func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 2*receivers) // as cmd/node-dns does
	goleak.VerifyTestMain(m)
}

// serve runs the daemon on a port of loopback, in front of an upstream nameserver, until the test ends.
func serve(t *testing.T, upstream *dnstest.Server) netip.AddrPort {
	t.Helper()
	root := lab.ShortDir(t)
	config := filepath.Join(root, "node-dns.yaml")
	var files atomicfile.Writer
	if _, err := files.Write(config, []byte("clusterDomain: cluster.test\nkubeconfig: none\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- daemon.Run(ctx, daemon.Config{
			Root: root, ConfigFile: config, Listen: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")},
			Upstreams: []nameserver.Server{{Addr: upstream.Addr()}}, Receivers: receivers,
			Looker: hostdns.Looker{
				Net:            func(context.Context) (netstate.State, error) { return netstate.State{}, nil },
				NetworkManager: func(context.Context) (nm.Snapshot, error) { return nm.Snapshot{}, nm.ErrNotRunning },
			},
		})
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the daemon ended with %v", err)
		}
	})
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		status, err := control.FetchStatus(t.Context(), control.SocketPath(root))
		if err == nil && len(status.Listeners) > 0 && status.Listeners[0].UDP {
			return netip.MustParseAddrPort(status.Listeners[0].Address)
		}
		if time.Now().After(deadline) {
			t.Fatalf("the daemon does not come up: %v", err)
		}
	}
}

// world is what the upstream nameserver knows: names below t.example are one of a kind each time that they are asked for.
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

// addresses are n records below a name.
func addresses(name string, n int) string {
	var text strings.Builder
	for i := range n {
		addr := netip.AddrFrom4([4]byte{198, 18, byte(i >> 8), byte(i)})
		text.WriteString("*." + name + ".t.example. 300 IN A " + addr.String() + "\n")
	}
	return text.String()
}
