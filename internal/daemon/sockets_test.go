package daemon

import (
	"bytes"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/dns/cache"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/sys/supervise"
	"github.com/node-dns/node-dns/internal/test/dnstest"
)

// TestSocketNames: a name has no colon (sd_notify(3)), and names are unique.
func TestSocketNames(t *testing.T) {
	at := netip.MustParseAddrPort
	names := map[string]socketKey{}
	for want, key := range map[string]socketKey{
		"udp-192.0.2.10-53-0":      {dnsserver.UDP, at("192.0.2.10:53"), 0},
		"tcp-192.0.2.10-53-0":      {dnsserver.TCP, at("192.0.2.10:53"), 0},
		"udp-192.0.2.10-8053-1":    {dnsserver.UDP, at("192.0.2.10:8053"), 1},
		"udp-2001_db8__10-53-0":    {dnsserver.UDP, at("[2001:db8::10]:53"), 0},
		"tcp-fe80__1%br-ex-53-0":   {dnsserver.TCP, at("[fe80::1%br-ex]:53"), 0},
		"udp-fe80__1%br_ex-53-0":   {dnsserver.UDP, at("[fe80::1%br_ex]:53"), 0},
		"udp-2001_db8__a00_1-53-0": {dnsserver.UDP, at("[2001:db8::a00:1]:53"), 0},
	} {
		got := key.name()
		if got != want {
			t.Errorf("%v is named %q, expected %q", key, got, want)
		}
		if other, taken := names[got]; taken {
			t.Errorf("%v and %v have the same name %q", key, other, got)
		}
		names[got] = key
	}
}

// TestSocketsOfOneAddress: each socket of an earlier daemon is reused by its index.
func TestSocketsOfOneAddress(t *testing.T) {
	at := dnstest.FreePort(t)
	s := newSockets(supervise.Store{}, slog.New(slog.DiscardHandler))
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
	}}
	for _, index := range []int{0, 2} {
		socket, err := lc.ListenPacket(t.Context(), "udp4", at.String())
		if err != nil {
			t.Fatal(err)
		}
		defer socket.Close()
		file, err := socket.(*net.UDPConn).File()
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		again, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		key := socketKey{dnsserver.UDP, at, index}
		if !s.inherit(os.NewFile(uintptr(again), key.name())) {
			t.Fatalf("%s is not inherited", key.name())
		}
	}
	for index, want := range []bool{true, false, true, false} {
		if got := s.Take(dnsserver.UDP, at, index) != nil; got != want {
			t.Errorf("socket %d taken: %v, expected %v", index, got, want)
		}
	}
	if s.Discard(dnsserver.UDP, at, 2); len(s.stored) != 1 || !s.stored[socketKey{dnsserver.UDP, at, 0}] {
		t.Errorf("stored without the discarded socket: %v", s.stored)
	}
	if s.Drop(dnsserver.UDP, at); len(s.stored) > 0 {
		t.Errorf("still stored: %v", s.stored)
	}
}

// TestSocketsAfterSlowStart: the time until unused sockets are closed begins with the first look
// after the start. A start that took longer, as with a slow disk, closed those of addresses that
// were not known yet, with the queries in them.
func TestSocketsAfterSlowStart(t *testing.T) {
	s := newSockets(supervise.Store{}, slog.New(slog.DiscardHandler))
	file, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	key := socketKey{dnsserver.UDP, netip.MustParseAddrPort("192.0.2.10:53"), 0}
	s.inherited[key], s.stored[key] = file, true
	first := time.Now().Add(time.Minute)
	for _, step := range []struct {
		at, wait time.Duration
		left     int
	}{{0, unwanted, 1}, {unwanted - 1, 1, 1}, {unwanted, 0, 0}, {time.Hour, 0, 0}} {
		if wait := s.closeUnused(first.Add(step.at)); wait != step.wait || len(s.inherited) != step.left || len(s.stored) != step.left {
			t.Errorf("after %v: wait %v with %d sockets, want %v with %d", step.at, wait, len(s.inherited), step.wait, step.left)
		}
	}
}

// TestSocketsWithoutRoom: sockets over FileDescriptorStoreMax= are not held, which is reported.
// With room again, the report ends.
func TestSocketsWithoutRoom(t *testing.T) {
	t.Setenv("FDSTORE", "6") // two, besides those that are not sockets
	var log bytes.Buffer
	s := newSockets(supervise.Store{}, slog.New(slog.NewTextHandler(&log, nil)))
	if s.room != 2 {
		t.Errorf("room for %d sockets, expected 2", s.room)
	}
	if s.all() {
		t.Error("all sockets count as held without a service manager")
	}
	at := netip.MustParseAddrPort("192.0.2.10:53")
	s.lost[socketKey{dnsserver.UDP, at, 0}] = true
	if s.note() == "" {
		t.Error("a socket that is not held is not reported")
	}
	s.Drop(dnsserver.UDP, at)
	if s.note() != "" {
		t.Error(s.note())
	}
}

// TestCacheOfAnother: the cache of an earlier daemon is used, except answers from servers that are
// no longer used. With other settings it is not used: after a restart with a new bogus-nxdomain,
// the daemon gave the old answer for up to a day.
func TestCacheOfAnother(t *testing.T) {
	t.Parallel()
	site, next := dnstest.NewServer(t, siteRecords), dnstest.NewServer(t, "www.example.com. 300 IN A 192.0.2.81\n")
	ask := func(r *running) string {
		return firstValue(dnstest.Exchange(t, r.address(), "www.example.com.", dns.TypeA))
	}
	first := start(t, map[string]string{upstreamPath: upstreamFile(site)})
	ask(first)
	from := inherited{cache: cache.Sealed{Dump: first.daemon.resolver.Cache().Dump(maxCacheDump), Settings: first.daemon.policy().Settings.Sum()}}

	second := start(t, map[string]string{upstreamPath: upstreamFile(site)})
	second.daemon.takeOverFrom(from)
	if got, asked := ask(second), site.QueriesFor("www.example.com.", dns.TypeA); got != "192.0.2.80" || asked != 1 {
		t.Errorf("with the same server: %s after %d queries, want 1 query", got, asked)
	}
	third := start(t, map[string]string{upstreamPath: upstreamFile(next)})
	third.daemon.takeOverFrom(from)
	if got := ask(third); got != "192.0.2.81" {
		t.Errorf("with another server: %s", got)
	}
	// An admin adds an option and restarts the daemon.
	for option, want := range map[string]string{"bogus-nxdomain=192.0.2.80": "", "alias=192.0.2.80,192.0.2.82": "192.0.2.82"} {
		changed := start(t, map[string]string{upstreamPath: upstreamFile(site), "/etc/dnsmasq.d/own.conf": option + "\n"})
		changed.daemon.takeOverFrom(from)
		if got := ask(changed); got != want {
			t.Errorf("with %s: got %q, want %q", option, got, want)
		}
	}
}
