package daemon

import (
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/policy"
	"github.com/node-dns/node-dns/internal/test/dnstest"
)

// TestFlushInFlight: a client that asks after a flush neither gets nor caches the response to a
// query sent before it, over UDP and TCP.
func TestFlushInFlight(t *testing.T) {
	t.Parallel()
	for name, exchange := range map[string]func(dnstest.TB, netip.AddrPort, string, uint16, ...dnstest.Option) *dns.Msg{
		"UDP": dnstest.Exchange, "TCP": dnstest.ExchangeTCP,
	} {
		t.Run(name, func(t *testing.T) {
			site := dnstest.NewServer(t, siteRecords)
			r := start(t, map[string]string{upstreamPath: upstreamFile(site)})
			at, before := r.address(), make(chan *dns.Msg, 1)
			site.SetFaultsFor("www.example.com.", dnstest.Faults{Delay: 700 * time.Millisecond})
			asked := func() int { return site.QueriesFor("www.example.com.", dns.TypeA) }
			go func() { before <- exchange(t, at, "www.example.com.", dns.TypeA) }()
			r.await("the upstream is queried", func() bool { return asked() > 0 })
			site.SetRecords("www.example.com. 300 IN A 192.0.2.99\n")
			if entries, err := r.daemon.view.FlushCache(control.CachePart{Name: "elsewhere.example"}); entries != 0 || err != nil {
				t.Errorf("%d flushed, %v", entries, err)
			}
			if got := firstValue(exchange(t, at, "www.example.com.", dns.TypeA)); got != "192.0.2.99" {
				t.Errorf("after the flush: %s", got)
			}
			<-before // drain the earlier answer; if it was slow the server is queried again
			asks := asked()
			if got := firstValue(exchange(t, at, "www.example.com.", dns.TypeA)); got != "192.0.2.99" || asked() != asks {
				t.Errorf("then: %s, %d more upstream queries", got, asked()-asks)
			}
		})
	}
}

// TestFlushOrders: an invalid flush request is rejected and flushes nothing.
func TestFlushOrders(t *testing.T) {
	d, err := New(Config{Root: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	d.build(new(policy.Policy))
	t.Cleanup(d.resolver.Close)
	for _, part := range []control.CachePart{
		{},
		{Name: "a.example", All: true},
		{Zone: "example", Negative: true},
		{Name: "a", Zone: "b"},
		{Name: "a..b"},
		{Name: strings.Repeat("a", 64)},
		{Zone: strings.Repeat("abcdefg.", 40)},
	} {
		if _, err := d.view.FlushCache(part); err == nil {
			t.Errorf("%+v is accepted", part)
		} else if _, ok := err.(control.MistakeError); !ok {
			t.Errorf("%+v: %v", part, err)
		}
	}
	if entries := d.view.FlushAll(); entries != 0 {
		t.Errorf("%d entries", entries)
	}
}

// TestDumpIsAMasterFile: parsing the printed dump gives the cached records, whatever they contain.
func TestDumpIsAMasterFile(t *testing.T) {
	t.Parallel()
	const records = `a.example.com. 300 IN TXT "\027[2J;\"\\" "  two  spaces" "\255"
\027\;\"\(\009x.example.com. 300 IN CNAME \@\.\\.example.com.
b.example.com. 300 IN HINFO "a b" ";"
c.example.com. 300 IN TYPE65280 \# 3 0a1b2c
d.example.com. 300 IN CAA 0 issue "x;y\"\010"
e.example.com. 300 IN NAPTR 1 2 "u" "a;b" "!^.*$!\\1!" .
f.example.com. 300 IN URI 1 2 "http://x/;\007"
g.example.com. 300 IN SVCB 1 . alpn="h2,h3" port=53
h.example.com. 300 IN LOC 51 30 12.748 N 0 7 39.612 W 0.00m 0.00m 0.00m 0.00m
i.example.com. 300 IN NULL \# 2 1b5b
`
	site := dnstest.NewServer(t, records)
	r := start(t, map[string]string{upstreamPath: upstreamFile(site)})
	want := map[string]bool{}
	for parser := dns.NewZoneParser(strings.NewReader(records), "", ""); ; {
		rr, ok := parser.Next()
		if !ok {
			break
		}
		rr.Header().Name = strings.ToLower(rr.Header().Name)
		want[rr.String()] = true
		dnstest.Exchange(t, r.address(), rr.Header().Name, rr.Header().Rrtype, dnstest.EDNS(4096))
	}
	var text strings.Builder
	err := control.DumpCache(t.Context(), control.SocketPath(r.root), control.CachePart{}, func(e control.CacheEntry) error { return e.WriteText(&text) })
	if err != nil {
		t.Fatal(err)
	}
	if strings.ContainsFunc(text.String(), func(c rune) bool { return c != '\n' && (c < ' ' || c > '~') }) {
		t.Errorf("%q", text.String())
	}
	parser := dns.NewZoneParser(strings.NewReader(text.String()), "", "")
	for rr, ok := parser.Next(); ok; rr, ok = parser.Next() {
		rr.Header().Ttl = 300 // a second may have passed
		if !want[rr.String()] {
			t.Errorf("no such record: %s", rr)
		}
		delete(want, rr.String())
	}
	if parser.Err() != nil || len(want) > 0 {
		t.Errorf("%v; missing %v in\n%s", parser.Err(), want, text.String())
	}
}

// TestDumpStops: the dump ends when the client disconnects.
func TestDumpStops(t *testing.T) {
	t.Parallel()
	site := dnstest.NewServer(t, siteRecords+"*.example.com. 300 IN A 192.0.2.1\n")
	r := start(t, map[string]string{upstreamPath: upstreamFile(site)})
	for _, name := range []string{"a.example.com.", "b.example.com.", "c.example.com."} {
		dnstest.Exchange(t, r.address(), name, dns.TypeA)
	}
	seen := 0
	err := control.DumpCache(t.Context(), control.SocketPath(r.root), control.CachePart{}, func(control.CacheEntry) error {
		seen++
		return filepath.SkipAll
	})
	if err != filepath.SkipAll || seen != 1 {
		t.Errorf("%v after %d", err, seen)
	}
}
