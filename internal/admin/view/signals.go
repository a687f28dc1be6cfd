package view

import (
	"fmt"
	"time"

	"github.com/node-dns/node-dns/internal/admin/dbusapi"
)

// Report logs the statistics after SIGUSR1.
func (v *View) Report() {
	for _, line := range reportLines(v.Counters(), max(v.policy().Settings.CacheSize, 0)) {
		v.Plain.Info(line)
	}
}

// reportLines returns dnsmasq 2.90's log lines for the statistics that exist here.
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

// Forget clears the cache and the response times of upstream nameservers after SIGUSR2, like
// systemd-resolved.
func (v *View) Forget() {
	v.FlushAll()
	v.resolver.Forward().ForgetTimes()
}
