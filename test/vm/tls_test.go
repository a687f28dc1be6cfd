package vm

import (
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// The address of a nameserver that only supports TLS, and the name in its certificate.
const (
	secure     = "10.78.0.55"
	secureName = "dns.example.net"
)

// TestSystemCertificates: an upstream over TLS is used if the system trusts its certificate, and
// only then.
func TestSystemCertificates(t *testing.T) {
	if testing.Short() {
		t.Skip("only the full lane runs it")
	}
	lab.Need(t, "unbound", "openssl")
	t.Run("confined", func(t *testing.T) { systemCertificates(t, true) })
	t.Run("alone", func(t *testing.T) { systemCertificates(t, false) })
}

func systemCertificates(t *testing.T, confined bool) {
	g := newServingNode(t, strictest(), confined)
	g.lan.Run("ip", "address", "add", secure+"/24", "dev", "lan0")
	_, certificate := g.lan.StartTLS(t.TempDir(), secure, secureName)
	ask := func() string {
		out, _ := g.lan.Try("dig", "+short", "+tries=1", "+timeout=5", "@"+nodeIP, "who.test", "TXT")
		return strings.TrimSpace(out)
	}

	g.Run("printf 'upstreams: [\"dns+tls://" + secure + "#" + secureName + "\"]\\n' >/etc/node-dns/node-dns.yaml; systemctl reload node-dns")
	g.Await("the certificate to be refused", "journalctl -q -o cat -u node-dns | grep -q 'certificate signed by unknown authority' || dig +tries=1 @"+nodeIP+" who.test TXT | grep -q 'unknown authority'")
	if got := ask(); strings.Contains(got, lab.OverTLS) {
		t.Errorf("a nameserver with an untrusted certificate was used: %s", got)
	}
	g.Push(router, "/usr/local/share/ca-certificates", certificate)
	g.Run("mv /usr/local/share/ca-certificates/cert.pem /usr/local/share/ca-certificates/site.crt && update-ca-certificates && restorecon -RF /etc/ssl && systemctl restart node-dns")
	g.l.Await("an answer over TLS", func() bool { return ask() == `"`+lab.OverTLS+`"` })
	g.checkDoctor("the certificate is trusted")
	g.checkDenials()
}
