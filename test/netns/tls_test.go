package netns

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/lab"
)

// overTLS is what who.test. says where the question came over TLS.
const overTLS = "over-tls"

// unboundTLS answers at port 853 alone, with a certificate that nobody knows.
const unboundTLS = `server:
  directory: ""
  chroot: ""
  username: ""
  pidfile: ""
  use-syslog: no
  logfile: ""
  interface: ` + ns1 + `@853
  tls-port: 853
  tls-service-key: DIR/key.pem
  tls-service-pem: DIR/cert.pem
  access-control: 10.77.0.0/24 allow
  module-config: "iterator"
  local-zone: "test." static
  local-data: 'who.test. 0 IN TXT "` + overTLS + `"'
remote-control:
  control-enable: no
`

// TestOpportunisticTLS: what DHCP has named, a dnsmasq, is asked at the same address over TLS while an unbound is there, and in the
// clear when that is gone, by the daemon with the rights that it has on a node.
func TestOpportunisticTLS(t *testing.T) {
	lab.Need(t, "unbound", "openssl")
	n := newNode(t, withFile("/etc/node-dns/node-dns.yaml", "dnsOverTLS: opportunistic\n"))
	dir := t.TempDir()
	n.l.Run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1",
		"-subj", "/CN=nobody.invalid", "-keyout", filepath.Join(dir, "key.pem"), "-out", filepath.Join(dir, "cert.pem"))
	n.l.WriteFile(filepath.Join(dir, "conf"), strings.ReplaceAll(unboundTLS, "DIR", dir))
	secure := n.lan.Start("unbound", "-d", "-p", "-v", "-c", filepath.Join(dir, "conf"))
	n.l.Await("unbound", func() bool { return strings.Contains(secure.Output(), "start of service") })

	n.connect("eth0")
	n.await(right{Upstreams: []string{ns1}, Answers: overTLS})
	node := lab.Binary(t, "node-dns")
	if out := n.l.Run(node, "servers"); !strings.Contains(out, "tls (opportunistic)") {
		t.Errorf("servers:\n%s", out)
	}
	inTheClear := strings.Count(n.nameservers[ns1].Output(), "who.test")
	if inTheClear == 0 {
		t.Error("the first question did not go in the clear")
	}
	for range 20 {
		if got := ask(nodeIP, "who.test."); got != overTLS {
			t.Errorf("answered %q", got)
		}
	}
	if now := strings.Count(n.nameservers[ns1].Output(), "who.test"); now != inTheClear {
		t.Errorf("%d questions in the clear", now-inTheClear)
	}

	secure.Kill()
	for range 20 {
		if got := ask(nodeIP, "who.test."); got != ns1 {
			t.Errorf("answered %q", got)
		}
	}
	if out := n.l.Run(node, "servers"); !strings.Contains(out, "udp") {
		t.Errorf("servers:\n%s", out)
	}
}
