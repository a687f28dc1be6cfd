package daemon

import (
	"fmt"
	"strconv"
)

// bindNumbers are what dnsmasq tells of itself by names of class CHAOS (dnsmasq(8), "cache statistics"), which monitoring asks
// for.
func (d *Daemon) bindNumbers(name string) (texts []string, known bool) {
	c := d.counters()
	var n uint64
	switch name {
	case "cachesize.bind.":
		n = uint64(max(d.serving.Load().settings.cacheSize, 0))
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
		for _, server := range c.Servers {
			texts = append(texts, fmt.Sprintf("%s#%d %d %d", server.Addr.Addr(), server.Addr.Port(), server.Queries, server.Failed))
		}
		return texts, len(texts) > 0
	default:
		return nil, false
	}
	return []string{strconv.FormatUint(n, 10)}, true
}
