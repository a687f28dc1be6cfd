package vm

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/lab"
)

// The nameserver that speaks TLS alone, and the name in its certificate.
const (
	secure     = "10.78.0.55"
	secureName = "dns.example.net"
	overTLS    = "over-tls"
)

const unboundTLS = `server:
  directory: ""
  chroot: ""
  username: ""
  pidfile: ""
  use-syslog: no
  logfile: ""
  interface: ` + secure + `@853
  tls-port: 853
  tls-service-key: DIR/key.pem
  tls-service-pem: DIR/cert.pem
  access-control: 10.78.0.0/24 allow
  module-config: "iterator"
  local-zone: "test." static
  local-data: 'who.test. 0 IN TXT "` + overTLS + `"'
remote-control:
  control-enable: no
`

// TestSystemCertificates: an upstream over TLS whose certificate the system trusts is asked, and one that it does not trust is not.
func TestSystemCertificates(t *testing.T) {
	if testing.Short() {
		t.Skip("the whole lane runs it")
	}
	lab.Need(t, "unbound", "openssl")
	g := newServingNode(t, strictest(), true)
	dir := t.TempDir()
	certificate := filepath.Join(dir, "cert.pem")
	g.l.Run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
		"-subj", "/CN="+secureName, "-addext", "subjectAltName=DNS:"+secureName, "-keyout", filepath.Join(dir, "key.pem"), "-out", certificate)
	g.l.WriteFile(filepath.Join(dir, "conf"), strings.ReplaceAll(unboundTLS, "DIR", dir))
	g.lan.Run("ip", "address", "add", secure+"/24", "dev", "lan0")
	server := g.lan.Start("unbound", "-d", "-p", "-v", "-c", filepath.Join(dir, "conf"))
	g.l.Await("unbound", func() bool { return strings.Contains(server.Output(), "start of service") })
	ask := func() string {
		out, _ := g.lan.Try("dig", "+short", "+tries=1", "+timeout=5", "@"+nodeIP, "who.test", "TXT")
		return strings.TrimSpace(out)
	}

	g.Run("printf 'upstreams: [\"dns+tls://" + secure + "#" + secureName + "\"]\\n' >/etc/node-dns/node-dns.yaml; systemctl reload node-dns")
	g.Await("the certificate to be refused", "journalctl -q -o cat -u node-dns | grep -q 'certificate signed by unknown authority' || dig +tries=1 @"+nodeIP+" who.test TXT | grep -q 'unknown authority'")
	if got := ask(); strings.Contains(got, overTLS) {
		t.Errorf("a nameserver with a certificate that nobody vouches for was asked: %s", got)
	}
	g.Push(router, "/usr/local/share/ca-certificates", certificate)
	g.Run("mv /usr/local/share/ca-certificates/cert.pem /usr/local/share/ca-certificates/site.crt && update-ca-certificates && restorecon -RF /etc/ssl && systemctl restart node-dns")
	g.l.Await("an answer over TLS", func() bool { return ask() == `"`+overTLS+`"` })
	g.checkDoctor("the certificate is trusted")
	g.checkDenials()
}
