package forward

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/exchange"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/internal/test/lab"
)

const wwwAnswer = "NOERROR www.example.\t300\tIN\tA\t192.0.2.80"

// upgradable is a server that also speaks TLS at another address, with a laneServer that asks it.
type upgradable struct {
	*laneServer
	open, secure *dnstest.Server // the same server, unencrypted and over TLS
}

func newUpgradable(t *testing.T, change ...func(*Config)) upgradable {
	t.Helper()
	u := upgradable{open: dnstest.NewServer(t, world), secure: dnstest.NewTLSServer(t, world)}
	u.laneServer = newLaneServer(t, opportunistic(u.secure.Addr(), change...), plain(u.open))
	return u
}

// newEager is a patient newUpgradable in which every question may begin a connection.
func newEager(t *testing.T) upgradable {
	t.Helper()
	u := upgradable{open: dnstest.NewServer(t, world), secure: dnstest.NewTLSServer(t, world)}
	u.laneServer = newTunedServer(t, opportunistic(u.secure.Addr(), patient), eager, plain(u.open))
	return u
}

func eager(d *exchange.Dialer) { d.Pause = time.Nanosecond }

func opportunistic(at netip.AddrPort, change ...func(*Config)) func(*Config) {
	return func(c *Config) {
		c.Opportunistic = true
		c.TLSAddr = func(nameserver.Server) (netip.AddrPort, bool) { return at, true }
		for _, change := range change {
			change(c)
		}
	}
}

func (u upgradable) transport() Transport { return stateOf(u.f, plain(u.open)).Transport }

func (u upgradable) upgrade() *exchange.Upgrade {
	return u.f.table.Load().servers[plain(u.open)].upgrade.Load()
}

// mustAsk checks that a client gets the right answer.
func (u upgradable) mustAsk(t *testing.T) {
	t.Helper()
	if got := u.exchange(t, "www.example.", dns.TypeA); got != wwwAnswer {
		t.Errorf("got answer %q", got)
	}
}

// secured waits until the TLS connection exists.
func (u upgradable) secured(t *testing.T) {
	t.Helper()
	u.mustAsk(t)
	await(t, "the connection", func() bool { return u.transport() == Opportunistic })
}

// TestUpgrade: the first question goes unencrypted. Once the connection exists, all questions use
// it, with padding and without checking the server's name.
func TestUpgrade(t *testing.T) {
	u := newUpgradable(t, patient)
	u.secured(t)
	inTheClear := u.open.Queries()
	var clients sync.WaitGroup
	for i := range 100 {
		clients.Go(func() {
			if got := u.exchange(t, fmt.Sprintf("n%d.example.", i), dns.TypeA, dnstest.EDNS(1232)); got != "NXDOMAIN" {
				t.Errorf("got answer %q", got)
			}
		})
	}
	clients.Wait()
	if n := u.open.Queries(); n != inTheClear || n == 0 {
		t.Errorf("got %d unencrypted queries, %d of them before the connection existed", n, inTheClear)
	}
	if n := connections(u.secure); n != 1 {
		t.Errorf("got %d connections", n)
	}
	for _, q := range u.secure.Received() {
		if wire, err := q.Msg.Pack(); err != nil || len(wire)%paddedTo != 0 {
			t.Fatalf("got a query of %d octets, error %v", len(wire), err)
		}
	}
	if got := stateOf(u.f, plain(u.open)); got.State != exchange.Up || got.Failures != 0 {
		t.Errorf("got status %+v", got)
	}
}

// TestUpgradeWhole: a truncated UDP response is not retried over unencrypted TCP.
func TestUpgradeWhole(t *testing.T) {
	u := newUpgradable(t, patient)
	u.secured(t)
	u.open.SetFaults(dnstest.Faults{Truncate: true})
	u.secure.SetFaults(dnstest.Faults{Truncate: true})
	u.mustAsk(t)
	if n := u.f.Stats().OverTCP; n != 0 {
		t.Errorf("got %d queries over TCP, want 0", n)
	}
}

// listenWithoutTLS listens in place of port 853 of a server that has no DNS over TLS there.
func listenWithoutTLS(t *testing.T, serve func(net.Conn)) (at netip.AddrPort, accepted *atomic.Int32) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	accepted = new(atomic.Int32)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			accepted.Add(1)
			all.Go(func() { defer conn.Close(); serve(conn) })
		}
	})
	t.Cleanup(func() { listener.Close(); all.Wait() })
	return listener.Addr().(*net.TCPAddr).AddrPort(), accepted
}

// TestUpgradeToNothing: a server without DNS over TLS is queried unencrypted, each question at
// once. TLS is not tried again for a while.
func TestUpgradeToNothing(t *testing.T) {
	t.Parallel()
	mute := dnstest.NewTLSServer(t, world)
	mute.SetFaults(dnstest.Faults{Drop: true})
	hangingUp := dnstest.NewTLSServer(t, world)
	hangingUp.SetFaults(dnstest.Faults{CloseTCP: true})
	closed := dnstest.NewTLSServer(t, world)
	closed.Down()
	rows := []struct {
		name  string
		at    netip.AddrPort
		words string
	}{
		{"closed port", closed.Addr(), "connection refused"},
		{"no TLS", dnstest.NewServer(t, world).Addr(), ""},
		{"no response", mute.Addr(), "timed out"},
		{"closes the connection", hangingUp.Addr(), "connection closed"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			u, text := upgradable{open: dnstest.NewServer(t, world)}, &lab.Text{}
			u.laneServer = newTunedServer(t, opportunistic(row.at, patient, func(c *Config) {
				c.Log = logger(text)
			}), func(d *exchange.Dialer) { d.Timeout, d.Pause = 500*time.Millisecond, time.Nanosecond }, plain(u.open))
			u.mustAsk(t)
			await(t, "it is found out", func() bool { return strings.Contains(text.String(), "upstream is queried unencrypted") })
			for range 20 {
				u.mustAsk(t)
			}
			if got := stateOf(u.f, plain(u.open)); got.State != exchange.Up || got.Failures != 0 || got.Transport != InTheClear {
				t.Errorf("got status %+v", got)
			}
			if lines := strings.Count(text.String(), "\n"); lines != 1 || !strings.Contains(text.String(), row.words) {
				t.Errorf("got log\n%s", text.String())
			}
		})
	}
}

// TestUpgradeIsNotWaitedFor: while a handshake hangs, questions are answered unencrypted, and no
// second handshake begins. Close ends the handshake.
func TestUpgradeIsNotWaitedFor(t *testing.T) {
	var ended atomic.Int32
	at, accepted := listenWithoutTLS(t, func(conn net.Conn) {
		_, _ = io.Copy(io.Discard, conn) // until the client closes it
		ended.Add(1)
	})
	u := upgradable{open: dnstest.NewServer(t, world)}
	u.laneServer = newTunedServer(t, opportunistic(at, patient), func(d *exchange.Dialer) {
		eager(d)
		d.Timeout = 24 * time.Hour
	}, plain(u.open))
	u.mustAsk(t)
	await(t, "the handshake", func() bool { return accepted.Load() == 1 })
	for range 20 {
		u.mustAsk(t)
	}
	if n := accepted.Load(); n != 1 {
		t.Errorf("got %d connections", n)
	}
	if n := ended.Load(); n != 0 {
		t.Errorf("%d connections ended before Close", n)
	}
	u.f.Close() // does not return for a day if it waits for the handshake
	await(t, "the handshake ends", func() bool { return ended.Load() == 1 })
}

// TestUpgradeIsReplaced: a connection that answered clients and then went silent for a moment is
// replaced for the next question. A connection that never answered is not replaced for a while.
func TestUpgradeIsReplaced(t *testing.T) {
	for _, row := range []struct {
		name  string
		asked int
		rests bool
	}{{"connection answered before", 3, false}, {"connection never answered", 0, true}} {
		t.Run(row.name, func(t *testing.T) {
			u := newEager(t)
			u.secured(t)
			for range row.asked {
				u.mustAsk(t)
			}
			u.upgrade().Lost(u.upgrade().Current(), exchange.ErrTimeout)
			if got := u.transport(); got != InTheClear {
				t.Errorf("got transport %q", got)
			}
			if !row.rests {
				u.secured(t)
				return
			}
			for range 20 {
				u.mustAsk(t)
			}
			if n := u.f.Stats().Handshakes; n != 1 {
				t.Errorf("got %d connections", n)
			}
		})
	}
}

// TestUpgradeDies: when the server closes or ignores a connection with many questions, no question
// is lost. They are answered unencrypted from then on.
func TestUpgradeDies(t *testing.T) {
	t.Parallel()
	rows := []struct {
		name string
		die  func(secure *dnstest.Server)
	}{
		{"server down", (*dnstest.Server).Down},
		{"server goes silent", func(s *dnstest.Server) { s.SetFaults(dnstest.Faults{Drop: true}) }},
		{"closes at each query", func(s *dnstest.Server) { s.SetFaults(dnstest.Faults{CloseTCP: true}) }},
		{"resets during each response", func(s *dnstest.Server) { s.SetFaults(dnstest.Faults{ResetTCP: true}) }},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			u := newUpgradable(t)
			u.secured(t)
			var clients sync.WaitGroup
			var stop atomic.Bool
			defer clients.Wait()
			defer stop.Store(true)
			for client := range 16 {
				clients.Go(func() {
					for i := 0; !stop.Load(); i++ {
						name := fmt.Sprintf("n%d.c%d.example.", i, client)
						if got := u.exchange(t, name, dns.TypeA); got != "NXDOMAIN" {
							t.Errorf("%s: %q", name, got)
							return
						}
					}
				})
			}
			await(t, "questions over TLS", func() bool { return u.secure.Queries() > 100 })
			row.die(u.secure)
			await(t, "it is found out", func() bool { return u.transport() == InTheClear })
			before := u.open.Queries()
			await(t, "questions in the clear", func() bool { return u.open.Queries() > before+100 })
			stop.Store(true)
			clients.Wait()
			if got := stateOf(u.f, plain(u.open)); got.State != exchange.Up {
				t.Errorf("got status %+v", got)
			}
		})
	}
}

// TestUpgradeIdle: an idle connection that the server closes is not a failure. The next question
// goes unencrypted and begins a new connection, which resumes the session.
func TestUpgradeIdle(t *testing.T) {
	u := newEager(t)
	u.secured(t)
	for range 3 {
		u.mustAsk(t)
		conn := u.upgrade().Current()
		u.secure.CloseConnections()
		await(t, "the connection has ended", conn.Ended)
		u.secured(t)
	}
	if got := u.f.Stats(); got.Handshakes != 4 || got.Resumed != 3 {
		t.Errorf("%d of %d connections resumed", got.Resumed, got.Handshakes)
	}
	if got := stateOf(u.f, plain(u.open)); got.State != exchange.Up || got.Failures != 0 {
		t.Errorf("got status %+v", got)
	}
}

// TestUpgradeEndsWithTheSetting: the upgrade ends with the setting, and when the server leaves all
// routes.
func TestUpgradeEndsWithTheSetting(t *testing.T) {
	rows := []struct {
		name string
		end  func(u upgradable)
		want Transport
	}{
		{"SetOpportunistic", func(u upgradable) { u.f.SetOpportunistic(false) }, ""},
		{"SetRoutes", func(u upgradable) { u.f.SetRoutes(nil) }, ""},
		{"Close", func(u upgradable) { u.f.Close() }, InTheClear},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			u := newUpgradable(t, patient)
			u.secured(t)
			conn := u.upgrade().Current()
			row.end(u)
			await(t, "the connection ends", conn.Ended)
			if got := u.transport(); got != row.want {
				t.Errorf("got transport %q", got)
			}
		})
	}
	t.Run("off at the start", func(t *testing.T) {
		u := newUpgradable(t, patient, func(c *Config) { c.Opportunistic = false })
		u.mustAsk(t)
		if got := u.transport(); got != "" {
			t.Errorf("got transport %q", got)
		}
		u.f.SetOpportunistic(true)
		u.secured(t)
		u.f.SetOpportunistic(false)
		before := u.open.Queries()
		u.mustAsk(t)
		if u.open.Queries() == before {
			t.Error("the connection is still used")
		}
	})
}

// TestUpgradeIsNoStrictTLS: a server configured for TLS is authenticated and has no opportunistic
// upgrade.
func TestUpgradeIsNoStrictTLS(t *testing.T) {
	s := dnstest.NewTLSServer(t, world)
	other := overTLS(s)
	other.Name = "resolver.example"
	f := newForward(t, opportunistic(s.Addr(), trusting(s)), other)
	if m, _, err := askFor(t, f, "www.example.", dns.TypeA); err == nil {
		t.Errorf("got answer %v", m)
	}
	if got := stateOf(f, other); got.Transport != "" || s.Queries() != 0 {
		t.Errorf("got %d queries and transport %q", s.Queries(), got.Transport)
	}
}

// TestUpgradeFrom: the connection has the same source address as the server's queries.
func TestUpgradeFrom(t *testing.T) {
	open, secure := dnstest.NewServer(t, world), dnstest.NewTLSServer(t, world)
	server := plain(open)
	server.Source = netip.MustParseAddr("127.0.0.5")
	f := newForward(t, opportunistic(secure.Addr(), patient), server)
	mustAnswer(t, f)
	await(t, "the connection", func() bool { return secure.Queries() > 0 })
	if from := secure.Received()[0].Client.Addr(); from != server.Source {
		t.Errorf("got source %v", from)
	}
}

func TestTLSAddress(t *testing.T) {
	for text, want := range map[string]string{
		"192.0.2.53": "192.0.2.53:853", "2001:db8::53": "[2001:db8::53]:853", "fe80::1%eth0": "[fe80::1%eth0]:853",
		"192.0.2.53:5353": "", "127.0.0.53": "", "::1": "", "dns+tls://192.0.2.53": "", "dns+tls://192.0.2.53:53": "",
	} {
		got := ""
		if addr, ok := tlsAddress(nameserver.MustParse(text)); ok {
			got = addr.String()
		}
		if got != want {
			t.Errorf("%s: got %q", text, got)
		}
	}
}
