package forward

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/health"
	"github.com/node-dns/node-dns/internal/sys/journal"
)

// outages are the routes whose servers are all down. They are separate from server health because
// one server down can wait until morning, and all servers down cannot.
type outages struct {
	mu   sync.Mutex // guards dark, and keeps log lines in order
	dark map[dnsname.Name]struct{}
}

// tellOutages logs the routes whose servers are now all down, and those that have a server again.
// It runs when the log reports a server and when the routes change, so a flapping server causes no
// more lines here than there. A route whose servers are all in an unknown state is not an outage.
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
		f.config.Log.Error("all upstreams down", "domains", few(down), journal.UpstreamsDown.Attr())
	}
	if len(up) > 0 {
		f.config.Log.Info("upstreams answer again", "domains", few(up), journal.UpstreamsUp.Attr())
	}
}

// state reports whether any server of the route is up, and whether all of them are down. A route
// without servers is neither up nor down.
func (r *route) state() (isUp, isDown bool) {
	isDown = len(r.servers) > 0
	for _, s := range r.servers {
		state := s.State()
		isUp, isDown = isUp || state == health.Up, isDown && state == health.Down
	}
	return isUp, isDown
}

// fewDomains is the maximum number of domains in a log line: one server may serve a thousand.
const fewDomains = 6

func few(domains []string) string {
	slices.Sort(domains)
	if len(domains) <= fewDomains {
		return strings.Join(domains, " ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(domains[:fewDomains], " "), len(domains)-fewDomains)
}

// darken updates the darkness of each route. It runs when a server has gone or is back, and when
// the routes change.
func (f *Forward) darken() {
	f.darkening.Lock()
	defer f.darkening.Unlock()
	for _, r := range f.table.Load().order {
		if isDark := r.isGone(); r.dark.become(isDark) && isDark {
			f.tellLanes(mail{dark: r})
		}
	}
}

// isGone reports whether the route has servers and all of them are gone.
func (r *route) isGone() bool {
	for _, s := range r.servers {
		if !s.IsGone() {
			return false
		}
	}
	return len(r.servers) > 0
}

// tellLanes sends mail to the watchers of all lanes.
func (f *Forward) tellLanes(m mail) {
	if lanes := f.lanes.Load(); lanes != nil {
		for _, n := range *lanes {
			n.post(m)
		}
	}
}

// darkness records whether all servers of a route are silent. It is set after the first unanswered
// question and its check, long before the log reports an outage. So questions for other names need
// not find out again.
type darkness struct {
	now  atomic.Pointer[dark]
	next atomic.Int64 // time of the next probe without a waiter, since Forward.began
}

func (d *darkness) is() bool { return d.now.Load().is }

// become sets whether all servers are silent, and reports whether that changed. The caller holds
// Forward.darkening.
func (d *darkness) become(is bool) (isNew bool) {
	switch before := d.now.Load(); {
	case before.is == is:
		return false
	case is:
		d.now.Store(&dark{known: before.known, is: true})
		close(before.known)
	default:
		d.now.Store(&dark{known: make(chan struct{})})
	}
	return true
}

// A dark is one state of a darkness.
type dark struct {
	known chan struct{} // closed once all servers are known to be silent
	is    bool          // known is closed
}
