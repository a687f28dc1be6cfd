package daemon

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/admin/view"
	"github.com/node-dns/node-dns/internal/policy"
	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/internal/test/policytest"
)

// BenchmarkObserved is a cache hit of the whole daemon, as in BenchmarkUDP: unobserved, while it is
// scraped ten times a second, while a monitor waits for a name that is never queried, while
// node-dns top is open, and after it was closed. All but the monitor case cost the same.
func BenchmarkObserved(b *testing.B) {
	site := dnstest.NewServer(b, siteRecords)
	d, err := New(Config{Root: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	d.build(policy.New(policy.Inputs{Config: policytest.Config(b, "upstreams: [\""+site.Addr().String()+"\"]\n", ""), Net: policytest.Node()}))
	b.Cleanup(func() {
		if err := d.stop(context.Background()); err != nil {
			b.Error(err)
		}
	})
	if err := d.server.Listen([]netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}); err != nil {
		b.Fatal(err)
	}
	server := d.server.Listeners()[0].Addr
	query, err := new(dns.Msg).SetQuestion("www.example.com.", dns.TypeA).SetEdns0(1232, false).Pack()
	if err != nil {
		b.Fatal(err)
	}
	b.Run("unwatched", func(b *testing.B) { dnstest.AskMany(b, server, query) })
	b.Run("by Prometheus", func(b *testing.B) {
		defer scrapeOften(view.MetricsHandler("nodedns", view.MetricsSource{Sample: d.view.Sample, Status: d.view.Status, Log: d.log}))()
		dnstest.AskMany(b, server, query)
	})
	b.Run("by a monitor", func(b *testing.B) {
		filter, err := view.NewFilter("", "other.example", "", "")
		if err != nil {
			b.Fatal(err)
		}
		w, err := d.view.Hub.Watch(view.WatchConfig{Filter: filter})
		if err != nil {
			b.Fatal(err)
		}
		defer w.Close()
		dnstest.AskMany(b, server, query)
	})
	b.Run("by node-dns top", func(b *testing.B) {
		ctx, cancel := context.WithCancel(b.Context())
		done, lines := make(chan struct{}), json.NewEncoder(io.Discard)
		go func() {
			defer close(done)
			_ = d.view.Monitor(ctx, control.MonitorFilter{Sampled: true}, func(e control.MonitorEvent) error { return lines.Encode(e) }, func() error { return nil })
		}()
		defer func() {
			cancel()
			<-done
		}()
		dnstest.AskMany(b, server, query)
	})
	b.Run("unwatched again", func(b *testing.B) { dnstest.AskMany(b, server, query) })
}

// scrapeOften scrapes until stop is called. stop waits for the last scrape.
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
