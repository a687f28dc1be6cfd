package view

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/node-dns/node-dns/internal/dns/forward"
)

// BindNumbers returns the statistics that dnsmasq publishes under names of class CHAOS (dnsmasq(8),
// "cache statistics"), which monitoring tools query.
func (v *View) BindNumbers(name string) (texts []string, known bool) {
	c := v.Counters()
	var n uint64
	switch name {
	case "cachesize.bind.":
		n = uint64(max(v.policy().Settings.CacheSize, 0))
	case "insertions.bind.":
		n = c.Inserted
	case "evictions.bind.":
		n = c.Evicted
	case "misses.bind.":
		n = c.Forwarded
	case "hits.bind.":
		n = c.Local
	case "auth.bind.": // answers from zones for which dnsmasq is authoritative
	case "servers.bind.":
		texts = serverTexts(v.resolver.Forward().Status())
		return texts, len(texts) > 0
	default:
		return nil, false
	}
	return []string{strconv.FormatUint(n, 10)}, true
}

const (
	maxText  = 255 // bytes, RFC 1035 section 3.3
	maxTexts = 100
)

// serverTexts describes the servers like dnsmasq 2.90: address, queries and failures. dnsmasq never
// reports the domain. It precedes the address as in the server= option, so that a reader who splits
// at blanks still finds three words. The numbers are those of the server for all domains.
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
