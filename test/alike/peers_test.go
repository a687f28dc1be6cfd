package alike

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// Configuration of the other servers apart from ports: cache and forward like node-dns, and keep
// the order of records.
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

// startPeer runs a program until the test ends. command writes its files into dir and returns its
// arguments.
func startPeer(t *testing.T, command func(dir string, port uint16) []string) netip.AddrPort {
	t.Helper()
	dir, at := t.TempDir(), dnstest.FreePort(t)
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

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
