package dbusapi

import (
	"errors"
	"math"
	"net/netip"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// TestSince proves that counts since ClearMetrics are correct after a cache was replaced, a server
// was added and another was removed.
func TestSince(t *testing.T) {
	first, second := netip.MustParseAddrPort("10.0.0.1:53"), netip.MustParseAddrPort("10.0.0.2:53")
	now := Counters{Inserted: 3, Evicted: 1, Forwarded: 20, Local: 5, Unanswered: 2, OpenTCP: 4, Servers: []ServerCounters{
		{Addr: first, Queries: 30, Failed: 4, NXDomain: 3, Retries: 2, RTT: 1500 * time.Microsecond}, {Addr: second, Queries: 1},
	}}
	then := Counters{Inserted: 10, Evicted: 1, Forwarded: 15, Local: 5, OpenTCP: 9, Servers: []ServerCounters{
		{Addr: netip.MustParseAddrPort("10.0.0.9:53"), Queries: 7}, {Addr: first, Queries: 10, Failed: 4, NXDomain: 1},
	}}
	want := Counters{Inserted: 3, Forwarded: 5, Unanswered: 2, OpenTCP: 4, Servers: []ServerCounters{
		{Addr: first, Queries: 20, NXDomain: 2, Retries: 2, RTT: 1500 * time.Microsecond}, {Addr: second, Queries: 1},
	}}
	if diff := cmp.Diff(want, now.since(then), cmpopts.EquateComparable(netip.AddrPort{})); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	servers := now.serverMetrics()
	if diff := cmp.Diff(map[string]string{
		"address": "10.0.0.1", "port": "53", "queries": "30", "failed_queries": "4", "nxdomain": "3", "retries": "2", "latency": "1",
	}, servers[0]); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if got := (Counters{Local: 1 << 40}).metrics()["dns_local_answered"]; got != math.MaxUint32 {
		t.Errorf("got %d for a value above the type's maximum", got)
	}
}

// TestRefused proves that unsupported methods are refused before their arguments are parsed, which
// may crash a real dnsmasq.
func TestRefused(t *testing.T) {
	w := start(t)
	for method, args := range map[string][]any{
		"AddDhcpLease":    {"192.0.2.1", "00:11:22:33:44:55", []byte{}, []byte{}, uint32(60), uint32(0), false},
		"DeleteDhcpLease": {"192.0.2.1"},
	} {
		err := dnsmasqOf(w.dial()).Call(DnsmasqName+"."+method, 0, args...).Err
		var remote dbus.Error
		if !errors.As(err, &remote) || remote.Name != errorSupport {
			t.Errorf("%s: got %v", method, err)
		}
	}
	var version string
	if err := dnsmasqOf(w.dial()).Call(DnsmasqName+".GetVersion", 0).Store(&version); err != nil || version != "2.90-node-dns-test" {
		t.Errorf("got version %s, %v", version, err)
	}
}
