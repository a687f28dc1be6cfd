package lab

import (
	"fmt"
	"path/filepath"
	"strings"
)

// OverTLS is the TXT record of who.test. at a nameserver of StartTLS.
const OverTLS = "over-tls"

const unboundTLS = `server:
  directory: ""
  chroot: ""
  username: ""
  pidfile: ""
  use-syslog: no
  logfile: ""
  interface: %[1]s@853
  tls-port: 853
  tls-service-key: %[2]s/key.pem
  tls-service-pem: %[2]s/cert.pem
  access-control: 0.0.0.0/0 allow
  module-config: "iterator"
  local-zone: "test." static
  local-data: 'who.test. 0 IN TXT "` + OverTLS + `"'
remote-control:
  control-enable: no
`

// StartTLS starts unbound in a namespace. It answers only at port 853 of an address, over TLS, with
// a self-signed certificate for a name. StartTLS returns the program and the path of the
// certificate in dir.
func (n *Namespace) StartTLS(dir, addr, name string) (server *Process, certificate string) {
	n.l.t.Helper()
	certificate = filepath.Join(dir, "cert.pem")
	n.l.Run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
		"-subj", "/CN="+name, "-addext", "subjectAltName=DNS:"+name, "-keyout", filepath.Join(dir, "key.pem"), "-out", certificate)
	n.l.WriteFile(filepath.Join(dir, "conf"), fmt.Sprintf(unboundTLS, addr, dir))
	server = n.Start("unbound", "-d", "-p", "-v", "-c", filepath.Join(dir, "conf"))
	n.l.Await("unbound", func() bool { return strings.Contains(server.Output(), "start of service") })
	return server, certificate
}
