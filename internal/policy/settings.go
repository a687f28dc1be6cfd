package policy

import (
	"crypto/sha256"
	"fmt"

	"github.com/node-dns/node-dns/internal/dns/exchange"
	"github.com/node-dns/node-dns/internal/dnsmasqconf"
	"github.com/node-dns/node-dns/internal/nodeconfig"
)

// Settings are the numbers and switches of dnsmasq's files and of node-dns.yaml. Keys of
// node-dns.yaml win.
type Settings struct {
	CacheSize, forwardMax                  int
	MaxTTL, MinTTL, NegativeTTL, ClientTTL int  // in seconds, or dnsmasqconf.Unset
	Stale                                  int  // the same; 0 disables stale answers
	StaleAtOnce                            bool // a stale answer is sent before the upstreams are queried
	Prefetch                               bool
	NoNegative                             bool
	StopRebind, RebindLocalhost            bool
	bogus, ignored, rebindOK, rewrites     string // these options as text, so that Settings can be compared
	options                                dnsmasqconf.Options
	UDP                                    exchange.UDP
}

func newSettings(config nodeconfig.Config, files dnsmasqconf.Config) Settings {
	options := files.Options()
	options.Localise = false // applies to local data, so a change keeps the cache
	s := Settings{
		CacheSize: config.CacheSize, forwardMax: config.DNSForwardMax,
		MaxTTL: files.Number("max-cache-ttl"), MinTTL: files.Number("min-cache-ttl"), NegativeTTL: files.Number("neg-ttl"),
		ClientTTL: files.Number("max-ttl"), Prefetch: config.Prefetch, NoNegative: files.Has("no-negcache"),
		StopRebind: files.Has("stop-dns-rebind"), RebindLocalhost: files.Has("rebind-localhost-ok"),
		options: options, rebindOK: fmt.Sprint(files.RebindOK), rewrites: fmt.Sprint(files.Rewrites),
		bogus: fmt.Sprint(files.Bogus), ignored: fmt.Sprint(files.Ignored),
	}
	s.UDP.Cookies, s.UDP.MixedCase = config.Cookies, config.UseCapsForID
	s.UDP.Low, s.UDP.High = files.Ports.Low, files.Ports.High
	if n := files.Number("edns-packet-max"); n != dnsmasqconf.Unset {
		s.UDP.Size = uint16(n)
	}
	s.Stale = config.ServeStale
	if n := files.Number("use-stale-cache"); n != dnsmasqconf.Unset {
		if !isSet(config, "serveStale") {
			s.Stale = n
		}
		s.StaleAtOnce = s.Stale > 0
	}
	if n := files.Number("cache-size"); n != dnsmasqconf.Unset && !isSet(config, "cacheSize") {
		s.CacheSize = min(n, maxDnsmasqCache)
	}
	if n := files.Number("dns-forward-max"); n > 0 && !isSet(config, "dnsForwardMax") {
		s.forwardMax = n
	}
	return s
}

// Sum identifies the Settings in another process of the same program version.
func (s Settings) Sum() [sha256.Size]byte { return sha256.Sum256(fmt.Appendf(nil, "%+v", s)) }

// IsOpportunistic reports whether upstreams that support TLS are queried over it.
func (p *Policy) IsOpportunistic() bool {
	return p.Config.DNSOverTLS == nodeconfig.DNSOverTLSOpportunistic
}

// maxDnsmasqCache is node-dns.yaml's limit of cacheSize.
const maxDnsmasqCache = 10_000_000

func isSet(config nodeconfig.Config, key string) bool {
	_, ok := config.Sources[key]
	return ok
}

// metricsOf returns where metrics are served. A daemon below another root has no default address:
// the default belongs to the host, like the system bus.
func metricsOf(config nodeconfig.Config, root string) nodeconfig.Metrics {
	m := config.Metrics
	if _, isSaid := config.Sources["metrics.address"]; root != "" && root != "/" && !isSaid {
		m.Address = nodeconfig.Metrics{}.Address
	}
	return m
}
