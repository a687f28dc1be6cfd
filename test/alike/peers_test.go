package alike

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/control"
	"github.com/node-dns/node-dns/internal/daemon"
	"github.com/node-dns/node-dns/internal/hostdns"
	"github.com/node-dns/node-dns/internal/lab"
	"github.com/node-dns/node-dns/internal/nameserver"
	"github.com/node-dns/node-dns/internal/netstate"
	"github.com/node-dns/node-dns/internal/nm"
)

// receivers are those of the daemon: more than one, as on a node, so that queries go by the ways that they go there.
const receivers = 2

// startOurs runs the daemon on a port of loopback until the test ends.
func startOurs(t *testing.T, upstream netip.AddrPort) netip.AddrPort {
	t.Helper()
	root := lab.ShortDir(t)
	config := filepath.Join(root, "node-dns.yaml")
	write(t, config, "clusterDomain: cluster.test\nkubeconfig: none\ndomainNeeded: false\n")
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- daemon.Run(ctx, daemon.Config{
			Root: root, ConfigFile: config, Listen: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")},
			Upstreams: []nameserver.Server{{Addr: upstream}}, Receivers: receivers,
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

// What the peers are told beside ports: to remember and to forward as we do, and not to change the order of records.
const (
	dnsmasqConf = `no-resolv
no-hosts
user=
pid-file=
listen-address=127.0.0.1
bind-interfaces
cache-size=10000
dns-forward-max=10000
no-round-robin
port=%d
server=127.0.0.1#%d
log-facility=%s
`
	unboundConf = `server:
  interface: 127.0.0.1
  port: %d
  username: ""
  chroot: ""
  directory: ""
  pidfile: ""
  use-syslog: no
  logfile: %q
  do-not-query-localhost: no
  module-config: "iterator"
  minimal-responses: no
  rrset-roundrobin: no
  num-queries-per-thread: 4096
  outgoing-range: 8192
  incoming-num-tcp: 100
  outbound-msg-retry: 32
  access-control: 127.0.0.0/8 allow_snoop
remote-control:
  control-enable: no
forward-zone:
  name: "."
  forward-addr: 127.0.0.1@%d
`
)

func startDnsmasq(t *testing.T, upstream netip.AddrPort) netip.AddrPort {
	return startPeer(t, func(dir string, port uint16) []string {
		write(t, dir+"/conf", fmt.Sprintf(dnsmasqConf, port, upstream.Port(), dir+"/log"))
		return []string{"dnsmasq", "--keep-in-foreground", "--conf-file=" + dir + "/conf"}
	})
}

func startUnbound(t *testing.T, upstream netip.AddrPort) netip.AddrPort {
	return startPeer(t, func(dir string, port uint16) []string {
		write(t, dir+"/conf", fmt.Sprintf(unboundConf, port, dir+"/log", upstream.Port()))
		return []string{"unbound", "-d", "-p", "-c", dir + "/conf"}
	})
}

// startPeer runs a program until the test ends. command writes its files into dir.
func startPeer(t *testing.T, command func(dir string, port uint16) []string) netip.AddrPort {
	t.Helper()
	dir, at := t.TempDir(), freeAddress(t)
	argv := command(dir, at.Port())
	cmd := exec.Command(argv[0], argv[1:]...)
	said := new(lab.Text)
	cmd.Stdout, cmd.Stderr = said, said
	lab.StartBeside(t, cmd)
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	client := dns.Client{Timeout: 100 * time.Millisecond}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if _, _, err := client.ExchangeContext(t.Context(), new(dns.Msg).SetQuestion(".", dns.TypeNS), at.String()); err == nil {
			return at
		}
		if time.Now().After(deadline) {
			log, _ := os.ReadFile(dir + "/log")
			t.Fatalf("%s does not answer\n%s\n%s", strings.Join(argv, " "), said, log)
		}
	}
}

// freeAddress is a port that nobody has for UDP or for TCP.
func freeAddress(t *testing.T) netip.AddrPort {
	t.Helper()
	for range 100 {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		conn, err := net.ListenPacket("udp", listener.Addr().String())
		listener.Close()
		if err == nil {
			conn.Close()
			return netip.MustParseAddrPort(listener.Addr().String())
		}
	}
	t.Fatal("no port is free")
	panic("unreachable")
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
