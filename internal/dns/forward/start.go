package forward

import (
	"context"
	"hash/maphash"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/exchange"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/sys/rawsock"
)

// New returns a Forward, which holds no sockets until it is asked. Close ends it.
func New(c Config) *Forward {
	f := &Forward{
		hedge:      orDefault(c.Hedge, defaultHedge),
		tryTimeout: orDefault(c.TryTimeout, defaultTryTimeout),
		silence:    orDefault(c.Silence, defaultSilence),
		deadline:   orDefault(c.Deadline, defaultDeadline),
		log:        c.Log,
		changed:    c.Changed,
		ignore:     c.Ignore,
		answered:   c.Answered,
		isOwn:      c.IsOwn,
		suspect:    c.Suspect,
		spent:      c.Spent,
		threads:    rawsock.NewThreads(c.Lanes),
		seed:       maphash.MakeSeed(),
		most:       max(1, c.Lanes),
		began:      time.Now(),

		lastResorts: make(chan struct{}, mostLastResorts),
	}
	if c.Lanes == 0 {
		f.answered = nil
	}
	if f.log == nil {
		f.log = slog.New(slog.DiscardHandler)
	}
	f.dialer = exchange.NewDialer(exchange.DialerConfig{Timeout: f.deadline, RootCAs: c.RootCAs, Work: &f.work, Recovered: f.recovered, Log: f.log})
	if f.changed == nil {
		f.changed = func() {}
	}
	if f.ignore == nil {
		f.ignore = func(*dns.Msg) error { return nil }
	}
	if f.opportunistic, f.tlsAddr = c.Opportunistic, c.TLSAddr; f.tlsAddr == nil {
		f.tlsAddr = tlsAddress
	}
	if f.isOwn == nil {
		f.isOwn = func(netip.Addr) bool { return false }
	}
	if f.suspect == nil {
		f.suspect = func() {}
	}
	if f.spent == nil {
		f.spent = func(netip.Addr, int) {}
	}
	f.SetUDP(c.UDP)
	f.SetMaxInFlight(c.MaxInFlight)
	f.table.Store(&table{})
	f.SetRoutes(c.Routes)
	return f
}

func orDefault(d, otherwise time.Duration) time.Duration {
	if d <= 0 {
		return otherwise
	}
	return d
}

// SetMaxInFlight replaces Config.MaxInFlight. What is in flight already stays, also beyond the bound.
func (f *Forward) SetMaxInFlight(n int) {
	if n <= 0 {
		n = defaultMaxInFlight
	}
	f.flights.max.Store(int64(n))
}

// SetUDP replaces Config.UDP, for the questions that are not on their way yet.
func (f *Forward) SetUDP(u exchange.UDP) {
	if u.Size == 0 {
		u.Size = exchange.DefaultUDPSize
	}
	f.udp.Store(&u)
}

// SetAll says whether all servers of a route are asked at once, and the first final
// response counts (dnsmasq's all-servers), not one after the other.
func (f *Forward) SetAll(all bool) { f.all.Store(all) }

// SetOpportunistic replaces Config.Opportunistic. Questions under way end as they began.
func (f *Forward) SetOpportunistic(is bool) {
	f.setting.Lock()
	defer f.setting.Unlock()
	f.opportunistic = is
	for _, s := range f.table.Load().servers {
		s.setUpgrade(f)
	}
}

// Renew makes each new question go upstream by itself, even if an equal one is in flight: the
// response to that one may be older than what the caller has just dropped from the cache. Earlier
// waiters still get it.
func (f *Forward) Renew() {
	f.setting.Lock()
	defer f.setting.Unlock()
	t := *f.table.Load() // a flight belongs to its table
	f.table.Store(&t)
}

// Close fails what is in flight, closes all connections and waits until nothing
// of the Forward runs any more. Queries fail from then on. It may be called again.
func (f *Forward) Close() {
	f.opening.Lock()
	f.closed.Store(true)
	f.opening.Unlock()
	if lanes := f.lanes.Load(); lanes != nil {
		for _, n := range *lanes {
			n.shut()
		}
	}
	for _, s := range f.table.Load().servers {
		s.close()
	}
	f.work.Wait()
}

// DialUDP connects to a plain server as its questions do. It does not wait.
func (f *Forward) DialUDP(ctx context.Context, to nameserver.Server) (net.Conn, error) {
	return exchange.DialUDP(ctx, to, *f.udp.Load())
}
