package forward

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/node-dns/node-dns/internal/dnsname"
	"github.com/node-dns/node-dns/internal/journal"
)

// outages are the routes of which no server is left. They are apart from the servers' health because one server down is a
// matter for the day, and all of them for the night.
type outages struct {
	mu   sync.Mutex // guards dark, and keeps the log in order
	dark map[dnsname.Name]struct{}
}

// tellOutages logs the routes whose servers are all down now, and those that have one again. It is called where the log
// tells of a server, so that one that comes and goes makes no more lines here than there, and where the routes change: a
// route that has servers of which nothing is known is no outage, and no news either.
func (f *Forward) tellOutages() {
	f.outages.mu.Lock()
	defer f.outages.mu.Unlock()
	before := f.outages.dark
	f.outages.dark = map[dnsname.Name]struct{}{}
	var down, up []string
	for _, r := range f.table.Load().order {
		_, was := before[r.Domain]
		switch isUp, isDown := r.state(); {
		case isDown:
			f.outages.dark[r.Domain] = struct{}{}
			if !was {
				down = append(down, r.Domain.String())
			}
		case was && isUp:
			up = append(up, r.Domain.String())
		}
	}
	if len(down) > 0 {
		f.log.Error("all upstreams down", "domains", few(down), journal.UpstreamsDown.Attr())
	}
	if len(up) > 0 {
		f.log.Info("upstreams answer again", "domains", few(up), journal.UpstreamsUp.Attr())
	}
}

// state reports whether a server of the route has responded last, and whether all of them are down. A route without
// servers is neither.
func (r *route) state() (isUp, isDown bool) {
	isDown = len(r.servers) > 0
	for _, s := range r.servers {
		s.mu.Lock()
		isUp = isUp || s.health.state == Up
		isDown = isDown && s.health.state == Down
		s.mu.Unlock()
	}
	return isUp, isDown
}

// fewDomains is how many domains a log line names: one server may be that of a thousand.
const fewDomains = 6

func few(domains []string) string {
	slices.Sort(domains)
	if len(domains) <= fewDomains {
		return strings.Join(domains, " ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(domains[:fewDomains], " "), len(domains)-fewDomains)
}
