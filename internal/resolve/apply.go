package resolve

import (
	"time"

	"github.com/node-dns/node-dns/internal/dns/cache"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/forward"
	"github.com/node-dns/node-dns/internal/dns/zone"
	"github.com/node-dns/node-dns/internal/policy"
)

// Apply answers under another Policy from now on. It reports whether queries take other routes, and how many responses were forgotten
// for it. What is the same is left as it is: upstreams keep their health, and the cache keeps what came from servers that are still
// asked.
func (r *Resolver) Apply(p *policy.Policy) (rerouted bool, forgotten int) {
	old := r.state.Load()
	next := &state{Policy: p, mark: old.mark + 1, cache: old.cache}
	if next.cache == nil || p.Settings != old.Settings {
		next.cache = r.newCache(p.Settings)
	}
	next.zones = p.Apexes
	if p.API != (policy.API{}) {
		config := p.Zone()
		config.Next, config.Rotate = rest{r, next, selfAt, true}, r.config.Rotate
		next.zone = zone.NewResolver(config)
		next.zones = append(next.zone.Apexes(), p.Apexes...)
	}
	r.forward.SetRoutes(p.Guarded()) // first: a name that becomes the cluster's must not go on to the site's nameservers
	r.forward.SetMaxInFlight(p.ForwardMax)
	r.forward.SetAll(p.Dnsmasq.Has("all-servers"))
	r.forward.SetOpportunistic(p.IsOpportunistic())
	r.forward.SetUDP(p.Settings.UDP)
	r.names.replace(next.zone, p.API.Kubeconfig, func() { r.state.Store(next) })
	if forward.SameRoutes(old.Routes, p.Routes) {
		return false, 0
	}
	return true, r.FlushStale() // after the routes, and the state: it also drops the answers that are on their way
}

func (r *Resolver) newCache(s policy.Settings) *cache.Cache {
	c := cache.Config{
		Next: dnsserver.HandlerFunc(r.missed), Size: s.CacheSize, Limit: r.cacheLimit,
		MaxTTL: seconds(s.MaxTTL), MinTTL: seconds(s.MinTTL), NegativeTTL: seconds(s.NegativeTTL),
		Stale: seconds(s.Stale), StaleAtOnce: s.StaleAtOnce, Prefetch: s.Prefetch,
		Dark: r.forward.Dark, MayProbe: r.forward.MayProbe, Go: r.refresh,
	}
	if s.NoNegative {
		c.MaxNegativeTTL = -1
	}
	return cache.New(c)
}

// seconds is a number of Settings; dnsmasqconf.Unset is 0.
func seconds(n int) time.Duration { return time.Duration(max(n, 0)) * time.Second }
