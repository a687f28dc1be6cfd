package daemon

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/node-dns/node-dns/internal/dns/forward"
)

// bindNumbers are what dnsmasq tells of itself by names of class CHAOS (dnsmasq(8), "cache statistics"), which monitoring asks
// for.
func (d *Daemon) bindNumbers(name string) (texts []string, known bool) {
	c := d.counters()
	var n uint64
	switch name {
	case "cachesize.bind.":
		n = uint64(max(d.policy().Settings.CacheSize, 0))
	case "insertions.bind.":
		n = c.Inserted
	case "evictions.bind.":
		n = c.Evicted
	case "misses.bind.":
		n = c.Forwarded
	case "hits.bind.":
		n = c.Local
	case "auth.bind.": // answers of zones that dnsmasq is authoritative for
	case "servers.bind.":
		texts = serverTexts(d.resolver.Forward().Status())
		return texts, len(texts) > 0
	default:
		return nil, false
	}
	return []string{strconv.FormatUint(n, 10)}, true
}

const (
	maxText  = 255 // octets, RFC 1035 section 3.3
	maxTexts = 100
)

// serverTexts are the servers as dnsmasq 2.90 tells of them, address, queries and failures, of which it never says the domain: that is
// written before the address as in its server= option, so that who splits at blanks finds three words. The numbers are those of the
// server, whatever its domain.
func serverTexts(routes []forward.RouteStatus) (texts []string) {
	for _, route := range routes {
		domain := ""
		switch {
		case route.Plain:
			domain = "//"
		case !route.Domain.IsRoot():
			domain = "/" + route.Domain.Relative() + "/"
		}
		for _, server := range route.Servers {
			addr := server.Server.Addr
			text := fmt.Sprintf("%s#%d %d %d", addr.Addr(), addr.Port(), server.Queries, server.Failures+server.Refusals)
			if len(domain)+len(text) <= maxText {
				text = domain + text
			}
			if !slices.Contains(texts, text) && len(texts) < maxTexts {
				texts = append(texts, text)
			}
		}
	}
	return texts
}
