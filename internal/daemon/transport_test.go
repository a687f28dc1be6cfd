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

// transport returns the transport of the root route's first upstream.
func (r *running) transport() string {
	for _, route := range r.status().Routes {
		if route.Domain == "." && len(route.Servers) > 0 {
			return route.Servers[0].Transport
		}
	}
	return ""
}

// asksOverTLS queries a name that is not cached, and reports whether the next query would use TLS.
func (r *running) asksOverTLS() bool {
	r.rcode(r.address(), fmt.Sprintf("n%d.example.", time.Now().UnixNano()))
	return r.transport() == string(forward.Opportunistic)
}

// TestOpportunistic: upstreams are queried over TLS when possible, and the status shows that, until
// the configuration changes.
func TestOpportunistic(t *testing.T) {
	t.Parallel()
	const config = "/etc/node-dns/node-dns.yaml"
	site, secure := dnstest.NewServer(t, siteRecords), dnstest.NewTLSServer(t, siteRecords)
	files := map[string]string{upstreamPath: upstreamFile(site), config: "dnsOverTLS: opportunistic\n"}
	r := start(t, files, func(c *Config) {
		c.TLSAddr = func(nameserver.Server) (netip.AddrPort, bool) { return secure.Addr(), true }
	})
	if got := r.transport(); got != string(forward.InTheClear) {
		t.Errorf("before the first query over %q", got)
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
		t.Errorf("%d queries in the clear", n-inTheClear)
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
		t.Error("the old TLS connection is used")
	}
}
