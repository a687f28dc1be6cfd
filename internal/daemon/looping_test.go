package daemon

import (
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/admin/view"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/netstate"
	"github.com/node-dns/node-dns/internal/policy"
	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/internal/test/lab"
	"github.com/node-dns/node-dns/internal/test/policytest"
	"github.com/node-dns/node-dns/internal/upstream"
)

// A relay forwards queries to another address and the responses back.
type relay struct {
	addr    netip.AddrPort
	to      atomic.Pointer[netip.AddrPort]
	queries atomic.Int64
}

func newRelay(t *testing.T, to netip.AddrPort) *relay {
	t.Helper()
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{addr: conn.LocalAddr().(*net.UDPAddr).AddrPort()}
	r.to.Store(&to)
	var running sync.WaitGroup
	running.Go(func() {
		for {
			query := make([]byte, 512)
			n, client, err := conn.ReadFromUDPAddrPort(query)
			if err != nil {
				return
			}
			r.queries.Add(1)
			running.Go(func() {
				onward, err := net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(*r.to.Load()))
				if err != nil {
					return
				}
				defer onward.Close()
				_ = onward.SetDeadline(time.Now().Add(5 * time.Second))
				response := make([]byte, 2048)
				if _, err := onward.Write(query[:n]); err != nil {
					return
				}
				if n, err := onward.Read(response); err == nil {
					_, _ = conn.WriteToUDPAddrPort(response[:n], client)
				}
			})
		}
	})
	t.Cleanup(func() {
		conn.Close()
		running.Wait()
	})
	return r
}

// askAll queries different names at once and returns the number of answers by rcode.
func (r *running) askAll(at netip.AddrPort, prefix string, n int) map[int]int {
	var mu sync.Mutex
	rcodes := map[int]int{}
	var clients sync.WaitGroup
	for i := range n {
		clients.Go(func() {
			client := dns.Client{Timeout: 20 * time.Second}
			m, _, err := client.Exchange(new(dns.Msg).SetQuestion(fmt.Sprintf("%s%d.example.com.", prefix, i), dns.TypeA), at.String())
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				r.t.Error(err)
				return
			}
			rcodes[m.Rcode]++
		})
	}
	clients.Wait()
	return rcodes
}

// TestLoopWhileRunning: an upstream that begins to point to this daemon after the start probe is
// detected by the queries that come back, and left out. 101 queries go around a few times each, and
// later ones not at all.
func TestLoopWhileRunning(t *testing.T) {
	t.Parallel()
	site := dnstest.NewServer(t, siteRecords)
	there := newRelay(t, site.Addr())
	r := start(t, map[string]string{upstreamPath: "server=" + strings.ReplaceAll(there.addr.String(), ":", "#") + "\n"})
	at := r.address()
	if rcode := r.rcode(at, "www.example.com."); rcode != dns.RcodeSuccess {
		t.Fatalf("before: %s", dns.RcodeToString[rcode])
	}
	before := there.queries.Load()
	there.to.Store(&at)
	if rcodes := r.askAll(at, "loop", 101); rcodes[dns.RcodeServerFailure]+rcodes[dns.RcodeRefused] != 101 {
		t.Errorf("answered with %v", rcodes)
	}
	n := there.queries.Load() - before
	if t.Logf("101 queries caused %d upstream queries", n); n > 101*6 {
		t.Error("too many")
	}
	r.await("the upstream is left out", func() bool { return len(r.servers()) == 0 })
	if problems := strings.Join(r.status().Problems, "\n"); !strings.Contains(problems, there.addr.String()) {
		t.Errorf("the status has the problems %q", problems)
	}
	before = there.queries.Load()
	r.askAll(at, "later", 101)
	if n := there.queries.Load() - before; n > 2 { // one probe
		t.Errorf("got %d queries while left out", n)
	}
	to := site.Addr()
	there.to.Store(&to)
	r.daemon.loops.Reroute() // otherwise after five minutes
	r.await("the upstream is used again", func() bool { return len(r.servers()) == 1 })
	if rcode := r.rcode(at, "www.example.com."); rcode != dns.RcodeSuccess {
		t.Errorf("after: %s", dns.RcodeToString[rcode])
	}
}

// startBeforeLoop starts a daemon whose only upstream leads to a port where nothing listens. The
// test makes the upstream lead elsewhere.
func startBeforeLoop(t *testing.T) (*running, *relay) {
	t.Helper()
	closed, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	there := newRelay(t, closed.LocalAddr().(*net.UDPAddr).AddrPort())
	closed.Close()
	return start(t, map[string]string{upstreamPath: "server=" + strings.ReplaceAll(there.addr.String(), ":", "#") + "\n"}), there
}

// TestLoopComesLater: the hook captured a local address as an upstream, where nothing or another
// program listened. A second later it leads to this daemon: a published port is redirected, or the
// daemon is configured to listen there. Both are detected, and the upstream is left out.
func TestLoopComesLater(t *testing.T) {
	t.Parallel()
	t.Run("probe", func(t *testing.T) {
		r, there := startBeforeLoop(t)
		at := r.address()
		there.to.Store(&at)
		r.daemon.loops.Reroute() // like any change of the upstreams
		r.await("the upstream is left out", func() bool { return len(r.servers()) == 0 })
		if refused := fmt.Sprint(r.status().Refused); !strings.Contains(refused, nameserver.ComesBack) {
			t.Errorf("refused: %s", refused)
		}
	})
	t.Run("listener", func(t *testing.T) {
		const theirs = "192.0.2.53"
		before, after := policy.Inputs{Config: policytest.Config(t, "", "")}, policy.Inputs{Config: policytest.Config(t, "listen: [auto, "+theirs+"]\n", "")}
		for i, in := range []policy.Inputs{before, after} {
			in.Net = policytest.Node()
			in.Net.Addrs = append(slices.Clone(in.Net.Addrs), netstate.Addr{Addr: netip.MustParseAddr(theirs), Interface: "eth1", Up: true})
			in.From, in.Captured = nameserver.NetworkManager, upstream.Set{Servers: policytest.Servers(theirs, "192.0.2.54")}
			s := policy.New(in)
			if got, want := nameserver.Join(s.Routes[len(s.Routes)-1].Servers), []string{theirs + " 192.0.2.54", "192.0.2.54"}[i]; got != want {
				t.Errorf("%d: %s, expected %s", i, got, want)
			}
		}
	})
}

// TestProbesAreNotCounted: a loop probe that comes back appears in no counter of queries,
// responses, durations or cache hits, and no watcher sees it: neither node-dns monitor nor
// log-queries.
func TestProbesAreNotCounted(t *testing.T) {
	t.Parallel()
	r, there := startBeforeLoop(t)
	watcher, err := r.daemon.view.Hub.Watch(view.WatchConfig{Rate: 1000}) // like log-queries
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Close()
	at := r.address()
	there.to.Store(&at)
	r.daemon.loops.Reroute()
	r.await("the upstream is left out", func() bool { return len(r.servers()) == 0 })
	if served := r.daemon.server.Stats(); served != (dnsserver.Stats{}) {
		t.Errorf("queries: %+v", served)
	}
	if sample := view.NewSample(time.Now(), r.daemon.server.Traffic()); sample.Queries+sample.Responses+sample.NXDomain > 0 {
		t.Errorf("traffic: %+v", sample)
	}
	if stats := r.daemon.resolver.Cache().Stats(); stats.Hits+stats.Misses > 0 {
		t.Errorf("cache: %+v", stats)
	}
	if len(watcher.Events) > 0 {
		t.Errorf("watchers got %d queries", len(watcher.Events))
	}
}

// TestLoopBesideAnother: while one upstream sends our queries back, the other one answers all of
// them.
func TestLoopBesideAnother(t *testing.T) {
	t.Parallel()
	site, other := dnstest.NewServer(t, siteRecords), dnstest.NewServer(t, siteRecords)
	there := newRelay(t, site.Addr())
	r := start(t, map[string]string{upstreamPath: "server=" + strings.ReplaceAll(there.addr.String(), ":", "#") + "\n" + upstreamFile(other)})
	at := r.address()
	there.to.Store(&at)
	rounds := 0
	r.await("the upstream is left out", func() bool { // on a busy machine, a probe may come back too late
		if rcodes := r.askAll(at, fmt.Sprintf("n%d-", rounds), 101); rcodes[dns.RcodeNameError] != 101 {
			t.Errorf("answered with %v", rcodes)
		}
		rounds++
		return len(r.servers()) == 1
	})
}

// TestLoopOfTwo: two nodes that query each other, and a node and a dnsmasq that query each other.
func TestLoopOfTwo(t *testing.T) {
	t.Parallel()
	t.Run("two node-dns", func(t *testing.T) {
		site := dnstest.NewServer(t, siteRecords)
		a := start(t, map[string]string{upstreamPath: upstreamFile(site)})
		b := start(t, map[string]string{upstreamPath: "server=" + strings.ReplaceAll(a.address().String(), ":", "#") + "\n"})
		if rcode := b.rcode(b.address(), "www.example.com."); rcode != dns.RcodeSuccess {
			t.Fatalf("before: %s", dns.RcodeToString[rcode])
		}
		write(t, filepath.Join(a.root, upstreamPath), "server="+strings.ReplaceAll(b.address().String(), ":", "#")+"\n")
		a.askAll(a.address(), "a", 101)
		b.askAll(b.address(), "b", 101)
		a.await("one leaves the other out", func() bool { return len(a.servers())+len(b.servers()) < 2 })
		for _, r := range []*running{a, b} {
			if n := r.daemon.resolver.Forward().Stats().Asked; n > 1000 {
				t.Errorf("202 queries caused %d upstream queries", n)
			}
		}
	})
	t.Run("dnsmasq", func(t *testing.T) {
		lab.NeedPrograms(t, "dnsmasq")
		site := dnstest.NewServer(t, siteRecords)
		r := start(t, map[string]string{upstreamPath: upstreamFile(site)})
		theirs := lab.StartDnsmasq(t, lab.ShortDir(t), "no-hosts\nserver="+strings.ReplaceAll(r.address().String(), ":", "#"))
		write(t, filepath.Join(r.root, upstreamPath), "server="+strings.ReplaceAll(theirs.String(), ":", "#")+"\n")
		r.askAll(r.address(), "n", 101)
		r.await("dnsmasq is left out", func() bool {
			return len(r.servers()) == 0 && strings.Contains(strings.Join(r.status().Problems, "\n"), theirs.String())
		})
		if n := r.daemon.resolver.Forward().Stats().Asked; n > 600 {
			t.Errorf("101 queries caused %d upstream queries", n)
		}
	})
}

// TestOwnAddressComes: an upstream whose address becomes a listen address is left out after the
// next look, which each address change causes. It is used again when the address is no longer local
// (law 3).
func TestOwnAddressComes(t *testing.T) {
	const theirs = "192.0.2.53"
	in := policy.Inputs{Config: policytest.Config(t, "clusterDomain: cluster.local\nlisten: all\nupstreams: ["+theirs+", 192.0.2.54]\n", "")}
	without, with := policytest.Node(), policytest.Node()
	with.Addrs = append(slices.Clone(with.Addrs), netstate.Addr{Addr: netip.MustParseAddr(theirs), Interface: "eth0", Up: true})
	for i, step := range []struct {
		net  netstate.State
		want string
	}{{without, theirs + " 192.0.2.54"}, {with, "192.0.2.54"}, {without, theirs + " 192.0.2.54"}} {
		in.Net = step.net
		s := policy.New(in)
		if got := nameserver.Join(s.Routes[len(s.Routes)-1].Servers); got != step.want {
			t.Errorf("%d: %s, expected %s", i, got, step.want)
		}
	}
}
