package daemon

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/admin/metrics"
	"github.com/node-dns/node-dns/internal/admin/monitor"
	"github.com/node-dns/node-dns/internal/test/dnstest"
)

// BenchmarkObserved is a remembered answer of the whole daemon, as BenchmarkUDP has it, while nobody looks, while it is scraped ten
// times a second, while a monitor waits for a name that nobody asks for, and when it has gone. The first two and the last cost the same.
func BenchmarkObserved(b *testing.B) {
	site := dnstest.NewServer(b, siteRecords)
	d := still(b, "nodeName: node-7\nupstreams: [\""+site.Addr().String()+"\"]\n", bazaar())
	d.hub.Watched = d.watchQueries
	server := twoServers(b, d).wire
	query := wireQuery(b, "www.example.com.", dns.TypeA, func(m *dns.Msg) { m.SetEdns0(1232, false) })
	b.Run("by nobody", func(b *testing.B) { askMany(b, server, query) })
	b.Run("by Prometheus", func(b *testing.B) {
		defer scrapeOften(metrics.Handler("nodedns", metrics.Source{Sample: d.sample, Status: d.Status, Log: d.log}))()
		askMany(b, server, query)
	})
	b.Run("by a monitor", func(b *testing.B) {
		filter, err := monitor.NewFilter("", "other.example", "", "")
		if err != nil {
			b.Fatal(err)
		}
		w, err := d.hub.Watch(monitor.Config{Filter: filter})
		if err != nil {
			b.Fatal(err)
		}
		defer w.Close()
		askMany(b, server, query)
	})
	b.Run("by nobody any more", func(b *testing.B) { askMany(b, server, query) })
}

// scrapeOften scrapes until the function that it returns is called, which waits for the last time.
func scrapeOften(h http.Handler) (stop func()) {
	end, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/metrics", nil))
			select {
			case <-end:
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
	return func() {
		close(end)
		<-done
	}
}
