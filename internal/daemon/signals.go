package daemon

import (
	"fmt"
	"time"

	"github.com/node-dns/node-dns/internal/admin/dbusapi"
)

// report is what SIGUSR1 asks for.
func (d *Daemon) report() {
	for _, line := range reportLines(d.counters(), max(d.policy().Settings.CacheSize, 0)) {
		d.plain.Info(line)
	}
}

// reportLines are dnsmasq 2.90's lines of its statistics, of what there is here.
func reportLines(c dbusapi.Counters, cacheSize int) []string {
	lines := []string{
		fmt.Sprintf("cache size %d, %d/%d cache insertions re-used unexpired cache entries.", cacheSize, c.Evicted, c.Inserted),
		fmt.Sprintf("queries forwarded %d, queries answered locally %d", c.Forwarded, c.Local),
		fmt.Sprintf("queries answered from stale cache %d", c.Stale),
	}
	for _, s := range c.Servers {
		lines = append(lines, fmt.Sprintf("server %s#%d: queries sent %d, retried %d, failed %d, nxdomain replies %d, avg. latency %dms",
			s.Addr.Addr(), s.Addr.Port(), s.Queries, s.Retries, s.Failed, s.NXDomain, s.RTT.Round(time.Millisecond).Milliseconds()))
	}
	return lines
}

// forget is what SIGUSR2 asks for, as of systemd-resolved: what is remembered, and how fast the upstream nameservers were.
func (d *Daemon) forget() {
	d.flushAll()
	d.resolver.Forward().ForgetTimes()
}
