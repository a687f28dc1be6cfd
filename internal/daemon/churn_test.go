package daemon

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/test/dnstest"
)

// TestChurn: everything that can change changes at once while clients send queries. Each query is
// answered, no goroutine leaks (goleak), and there are no data races (-race).
func TestChurn(t *testing.T) {
	records := "*.example. 1 IN A 192.0.2.80\n"
	sites := []*dnstest.Server{dnstest.NewServer(t, records), dnstest.NewServer(t, records)}
	r := start(t, map[string]string{upstreamPath: upstreamFile(sites...)})
	at := r.address()
	ctx, cancel := context.WithCancel(t.Context())
	var changing, asking sync.WaitGroup
	repeat := func(change func(i int)) {
		changing.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				change(i)
			}
		})
	}
	yaml := filepath.Join(r.root, "/etc/node-dns/node-dns.yaml")
	repeat(func(i int) {
		configs := []string{"cacheSize: 0\n", "cacheSize: 100\ndnsForwardMax: 50\n", "routes: [{domain: a.example, servers: [" + sites[i%2].Addr().String() + "]}]\n", "cacheSize: [\n"}
		write(t, yaml, configs[i%len(configs)])
		_ = r.daemon.reload(ctx) // one in four is faulty
	})
	repeat(func(i int) {
		write(t, filepath.Join(r.root, upstreamPath), upstreamFile(sites[i%2:]...))
		time.Sleep(20 * time.Millisecond)
	})
	repeat(func(int) { r.status() })
	repeat(func(int) {
		sites[0].Down()
		time.Sleep(50 * time.Millisecond)
		if err := sites[0].Up(); err != nil {
			t.Error(err)
		}
		time.Sleep(50 * time.Millisecond)
	})
	var answered atomic.Int32
	for client := range 8 {
		asking.Go(func() {
			network := []string{"udp", "tcp"}[client%2]
			for i := range 100 {
				ask(t, network, at, fmt.Sprintf("n%d.a.example.", i%20), &answered)
			}
		})
	}
	asking.Wait()
	cancel()
	changing.Wait()
	if answered.Load() == 0 {
		t.Error("no query was answered")
	}
}

func ask(t *testing.T, network string, at netip.AddrPort, name string, answered *atomic.Int32) {
	client := dns.Client{Net: network, Timeout: 20 * time.Second}
	m, _, err := client.Exchange(new(dns.Msg).SetQuestion(name, dns.TypeA), at.String())
	switch {
	case err != nil:
		t.Errorf("%s over %s: %v", name, network, err)
	case m.Rcode == dns.RcodeSuccess && len(m.Answer) == 1:
		answered.Add(1)
	case m.Rcode != dns.RcodeServerFailure:
		t.Errorf("%s over %s: %v", name, network, m)
	}
}
