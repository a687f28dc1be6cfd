package daemon

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"testing"
	"time"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/dns/forward"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/test/dnstest"
)

// transport is that of the first upstream of all names.
func (r *running) transport() string {
	for _, route := range r.status().Routes {
		if route.Domain == "." && len(route.Servers) > 0 {
			return route.Servers[0].Transport
		}
	}
	return ""
}

// asksOverTLS asks a name that is not remembered, and reports whether the next one goes over TLS.
func (r *running) asksOverTLS() bool {
	r.rcode(r.address(), fmt.Sprintf("n%d.example.", time.Now().UnixNano()))
	return r.transport() == string(forward.Opportunistic)
}

// TestOpportunistic: what is asked over TLS, and that people are told so, until the configuration says otherwise.
func TestOpportunistic(t *testing.T) {
	const config = "/etc/node-dns/node-dns.yaml"
	site, secure := dnstest.NewServer(t, siteRecords), dnstest.NewTLSServer(t, siteRecords)
	files := map[string]string{upstreamPath: upstreamFile(site), config: "dnsOverTLS: opportunistic\n"}
	r := start(t, files, func(c *Config) {
		c.TLSAddr = func(nameserver.Server) (netip.AddrPort, bool) { return secure.Addr(), true }
	})
	if got := r.transport(); got != string(forward.InTheClear) {
		t.Errorf("before the first question over %q", got)
	}
	r.await("the connection", r.asksOverTLS)
	inTheClear := site.Queries()
	answer, err := r.daemon.view.Query(t.Context(), control.Question{Name: "once.example.", Type: "A"})
	if err != nil {
		t.Fatal(err)
	}
	if by := answer.By; by.Transport != string(forward.Opportunistic) {
		t.Errorf("answered by %+v", by)
	}
	if n := site.Queries(); n != inTheClear {
		t.Errorf("%d questions in the clear", n-inTheClear)
	}
	write(t, filepath.Join(r.root, config), "dnsOverTLS: no\n")
	if err := r.daemon.reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := r.transport(); got != "" {
		t.Errorf("over %q", got)
	}
	before := secure.Queries()
	r.rcode(r.address(), "twice.example.")
	if secure.Queries() != before || site.Queries() == inTheClear {
		t.Error("the connection is asked")
	}
}
