package resolve

import (
	"slices"
	"time"

	"github.com/node-dns/node-dns/internal/dns/cache"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/forward"
	"github.com/node-dns/node-dns/internal/dns/zone"
	"github.com/node-dns/node-dns/internal/policy"
)

// Apply switches to another Policy. It reports whether queries take other routes, and how many
// cached responses were dropped because of that. Unchanged parts stay: upstreams keep their health,
// and the cache keeps responses from servers that are still used, and those of all DNS pods while
// their routes have some.
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
	// First, so that a new cluster name is no longer sent to the site's nameservers.
	r.forward.SetRoutes(p.Guarded())
	r.forward.SetMaxInFlight(p.ForwardMax)
	r.forward.SetAll(p.Dnsmasq.Has("all-servers"))
	r.forward.SetOpportunistic(p.IsOpportunistic())
	r.forward.SetUDP(p.Settings.UDP)
	r.names.replace(next.zone, p.API.Kubeconfig, func() { r.state.Store(next) })
	if forward.SameRoutes(old.Routes, p.Routes) {
		return false, 0
	}
	if forward.SameRoutes(groupPods(old.Policy), groupPods(p)) {
		return true, 0 // any DNS pod gives the same answers
	}
	return true, r.FlushStale() // after the routes and the state, because it also drops answers in transit
}

// groupPods returns the routes of p with one server in place of its DNS pods.
func groupPods(p *policy.Policy) []forward.Route {
	routes := slices.Clone(p.Routes)
	for i := range routes {
		routes[i].Servers = p.GroupPods(routes[i].Servers)
	}
	return routes
}

func (r *Resolver) newCache(s policy.Settings) *cache.Cache {
	c := cache.Config{
		Next: dnsserver.HandlerFunc(r.missed), Size: s.CacheSize, Limit: r.cacheLimit,
		MaxTTL: seconds(s.MaxTTL), MinTTL: seconds(s.MinTTL), NegativeTTL: seconds(s.NegativeTTL),
		Stale: seconds(s.Stale), StaleAtOnce: s.StaleAtOnce, Prefetch: s.Prefetch,
		Unreachable: r.forward.Unreachable, MayProbe: r.forward.MayProbe, Go: r.refresh,
	}
	if s.NoNegative {
		c.MaxNegativeTTL = -1
	}
	return cache.New(c)
}

// seconds converts a number of Settings to a duration; dnsmasqconf.Unset becomes 0.
func seconds(n int) time.Duration { return time.Duration(max(n, 0)) * time.Second }
