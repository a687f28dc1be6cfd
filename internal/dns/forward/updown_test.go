package forward

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/exchange"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// TestDownAndUp: a server goes down, is queried last but never given up, is found to be back, and
// is first again. Each change is one line in the log.
func TestDownAndUp(t *testing.T) {
	t.Parallel()
	servers, addresses := startServers(t, 2)
	log := new(lab.Text)
	f := newForward(t, func(c *Config) { patient(c); c.Log = logger(log) }, addresses...)
	if from := mustAnswer(t, f); from != addresses[0] {
		t.Fatalf("got an answer from %v", from)
	}
	servers[0].Down()
	for range 3 {
		mustAnswer(t, f)
	}
	s := stateOf(f, addresses[0])
	if s.State != exchange.Down || s.LastError != "connection refused" || s.Failures != 3 || s.RTT <= 0 {
		t.Errorf("got status %+v", s)
	}
	queries := s.Queries
	if mustAnswer(t, f); stateOf(f, addresses[0]).Queries != queries {
		t.Error("the server that is down was queried first")
	}
	if err := servers[0].Up(); err != nil {
		t.Fatal(err)
	}
	// Until then every question goes to the other server without delay.
	await(t, "a probe finds it", func() bool {
		mustAnswer(t, f)
		return stateOf(f, addresses[0]).State == exchange.Up
	})
	if from := mustAnswer(t, f); from != addresses[0] {
		t.Errorf("after the probe: got an answer from %v", from)
	}
	want := "level=WARN msg=\"upstream down\" server=" + addresses[0].String() + " error=\"connection refused\" condition=upstream-down\n" +
		"level=INFO msg=\"upstream up\" server=" + addresses[0].String() + " condition=upstream-up\n"
	// The line is written after the state changes.
	await(t, "the second line", func() bool { return strings.Count(log.String(), "\n") >= 2 })
	if got := log.String(); got != want {
		t.Errorf("log:\n%swant:\n%s", got, want)
	}
}

// TestProbesDelayNoClient: a silent server that is down gets one probe per backoff interval, and no
// client waits for it.
func TestProbesDelayNoClient(t *testing.T) {
	t.Parallel()
	servers, addresses := startServers(t, 2)
	f := newForward(t, func(c *Config) { persistent(c); c.TryTimeout = 20 * time.Millisecond }, addresses...)
	servers[0].SetFaults(dnstest.Faults{Drop: true})
	s := serverOf(f, addresses[0])
	for range 3 {
		s.Failed("long ago", false, time.Time{}) // makes a probe due
	}
	before := stateOf(f, addresses[0])
	if before.State != exchange.Down {
		t.Fatalf("got status %+v", before)
	}
	for range 100 {
		if from := mustAnswer(t, f); from != addresses[1] {
			t.Fatalf("got an answer from %v", from)
		}
	}
	await(t, "the probe's failure", func() bool { return stateOf(f, addresses[0]).Failures > before.Failures })
}

// TestSlowNamesAreNotAServerDown: a server that gets only names that take longer than a try stays
// up, and nothing is logged.
func TestSlowNamesAreNotAServerDown(t *testing.T) {
	servers, addresses := startServers(t, 2)
	log := new(lab.Text)
	f := newForward(t, func(c *Config) { c.TryTimeout = 250 * time.Millisecond; c.Log = logger(log) }, addresses...)
	servers[0].SetFaultsFor("slow.example.", dnstest.Faults{Drop: true})
	mustAnswer(t, f)
	for range 3 + 1 {
		if _, from, err := askFor(t, f, "slow.example.", dns.TypeA); err != nil || from != addresses[1] {
			t.Fatalf("from %v: %v", from, err)
		}
		await(t, "the check", func() bool { return servers[0].QueriesFor(".", dns.TypeNS) > 0 })
	}
	mustAnswer(t, f)
	if s := stateOf(f, addresses[0]); s.State != exchange.Up || log.String() != "" {
		t.Errorf("%+v\n%s", s, log)
	}
}

// TestAllDownIsNotForEver: when all servers are down, all are tried. The first one that is back
// answers at once, without waiting for a probe.
func TestAllDownIsNotForEver(t *testing.T) {
	servers, addresses := startServers(t, 2)
	f := newForward(t, patient, addresses...)
	for _, s := range servers {
		s.Down()
	}
	for range 3 {
		if _, _, err := askFor(t, f, "www.example.", dns.TypeA); err == nil {
			t.Fatal("got an answer although all servers are down")
		}
	}
	for _, address := range addresses {
		if s := stateOf(f, address); s.State != exchange.Down {
			t.Fatalf("got status %+v", s)
		}
	}
	if err := servers[1].Up(); err != nil {
		t.Fatal(err)
	}
	if from := mustAnswer(t, f); from != addresses[1] {
		t.Errorf("got an answer from %v", from)
	}
}

// TestComesBackSlow: a server that was down returns, but is slower than the wait for servers that
// are down. One of the questions waits longer.
func TestComesBackSlow(t *testing.T) {
	t.Parallel()
	servers, addresses := startServers(t, 1)
	servers[0].SetFaults(dnstest.Faults{Drop: true})
	f := newForward(t, func(c *Config) { c.Silence = 900 * time.Millisecond }, addresses...)
	await(t, "the server is down for long", func() bool {
		_, _, err := askFor(t, f, "www.example.", dns.TypeA)
		return err != nil && stateOf(f, addresses[0]).State == exchange.Down && time.Since(stateOf(f, addresses[0]).Since) > time.Second
	})
	servers[0].SetFaults(dnstest.Faults{Delay: 600 * time.Millisecond}) // more than a third of Silence
	await(t, "an answer", func() bool {
		_, _, err := askFor(t, f, "www.example.", dns.TypeA)
		return err == nil
	})
}

// TestSlowFromTheStart: a server that is slow from the start does not answer its check in time and
// looks dead. All questions still wait for it.
func TestSlowFromTheStart(t *testing.T) {
	t.Parallel()
	servers, addresses := startServers(t, 1)
	servers[0].SetFaults(dnstest.Faults{Delay: 1800 * time.Millisecond})
	f := newForward(t, func(c *Config) { c.Silence, c.Deadline = 3*time.Second, 8*time.Second }, addresses...)
	var clients sync.WaitGroup
	for i := range 20 {
		clients.Go(func() {
			time.Sleep(time.Duration(i) * 30 * time.Millisecond) // some query while it counts as down
			if _, _, err := askFor(t, f, "www.example.", dns.TypeTXT+uint16(i)); err != nil {
				t.Error(err)
			}
		})
	}
	clients.Wait()
}

// TestFailureResponsesAreNotFailures: a server that refuses is alive. A name that no server can
// resolve must not mark a server as down.
func TestFailureResponsesAreNotFailures(t *testing.T) {
	servers, addresses := startServers(t, 1)
	servers[0].SetFaults(dnstest.Faults{Rcode: dns.RcodeServerFailure})
	f := newForward(t, patient, addresses...)
	for range 2 * 3 {
		if _, _, err := askFor(t, f, "www.example.", dns.TypeA); err != nil {
			t.Fatal(err)
		}
	}
	if s := stateOf(f, addresses[0]); s.State != exchange.Up || s.Failures != 0 {
		t.Errorf("got status %+v", s)
	}
}

// TestLocalFaultsAreNotTheServers: a lack of descriptors or ports on this host is not a fault of a
// server.
func TestLocalFaultsAreNotTheServers(t *testing.T) {
	s := testServers(t, 1)[0]
	for range 3 {
		s.failed(syscall.EMFILE)
		s.failed(syscall.EADDRNOTAVAIL)
		s.failed(syscall.EADDRINUSE) // of bind(2) to port 0
	}
	if got := s.status(); got.State != exchange.Unknown || got.Failures != 0 {
		t.Errorf("got status %+v", got)
	}
	s.log = slog.New(slog.DiscardHandler)
	if s.failed(syscall.ENETUNREACH); s.status().LastError != "network is unreachable" {
		t.Errorf("got status %+v", s.status())
	}
}

// TestNoLog: nothing breaks without a log.
func TestNoLog(t *testing.T) {
	servers, addresses := startServers(t, 1)
	servers[0].Down()
	f := newForward(t, patient, addresses...)
	for range 3 {
		_, _, err := askFor(t, f, "www.example.", dns.TypeA)
		if err == nil || !strings.Contains(err.Error(), "connection refused") {
			t.Fatal(err)
		}
	}
}

// TestOutage: when all servers of some routes go down, one log line names all these routes. The
// first answer then logs one more line.
func TestOutage(t *testing.T) {
	addresses := []nameserver.Server{nameserver.MustParse("192.0.2.1"), nameserver.MustParse("192.0.2.2")}
	log := new(lab.Text)
	routes := []Route{{Servers: addresses}}
	for i := range 7 {
		routes = append(routes, Route{Domain: dnsname.MustParse(fmt.Sprintf("r%d.example", i)), Servers: addresses})
	}
	routes = append(routes, Route{Domain: dnsname.MustParse("none.example")})
	f := New(Config{Routes: routes, Log: logger(log)})
	t.Cleanup(f.Close)
	outageLines := func() (lines []string) {
		for line := range strings.Lines(log.String()) {
			if !strings.Contains(line, "server=") {
				lines = append(lines, line)
			}
		}
		return lines
	}
	down := func(s *server) {
		for range 3 {
			s.failed(syscall.ECONNREFUSED)
		}
	}
	table := f.table.Load()
	first, second := table.servers[addresses[0]], table.servers[addresses[1]]
	second.follow(second.Succeeded(time.Millisecond, dns.RcodeSuccess, 0, time.Now()))
	down(first)
	if got := outageLines(); len(got) > 0 {
		t.Errorf("one of two is down: %q", got)
	}
	down(second)
	want := []string{"level=ERROR msg=\"all upstreams down\" domains=\". r0.example. r1.example. r2.example. r3.example. r4.example. and 2 more\" condition=upstreams-down\n"}
	if diff := cmp.Diff(want, outageLines()); diff != "" {
		t.Errorf("all are down (-want +got):\n%s", diff)
	}
	f.SetRoutes([]Route{{Servers: addresses}, {Domain: dnsname.MustParse("new.example"), Servers: addresses[:1]}})
	want = append(want, "level=ERROR msg=\"all upstreams down\" domains=new.example. condition=upstreams-down\n")
	if diff := cmp.Diff(want, outageLines()); diff != "" {
		t.Errorf("a new route with a server that is already down (-want +got):\n%s", diff)
	}
	second.follow(second.Succeeded(time.Millisecond, dns.RcodeSuccess, 0, time.Now()))
	want = append(want, "level=INFO msg=\"upstreams answer again\" domains=. condition=upstreams-up\n")
	if diff := cmp.Diff(want, outageLines()); diff != "" {
		t.Errorf("one is up (-want +got):\n%s", diff)
	}
	f.SetRoutes([]Route{{Domain: dnsname.MustParse("new.example"), Servers: []nameserver.Server{nameserver.MustParse("192.0.2.3")}}})
	if diff := cmp.Diff(want, outageLines()); diff != "" {
		t.Errorf("another server in unknown state (-want +got):\n%s", diff)
	}
}
