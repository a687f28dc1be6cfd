package forward

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/exchange"
	"github.com/node-dns/node-dns/internal/sys/journal"
)

// outages are the routes whose servers are all down. They are separate from server health because
// one server down can wait until morning, and all servers down cannot.
type outages struct {
	mu   sync.Mutex // guards down, and keeps log lines in order
	down map[dnsname.Name]struct{}
}

// tellOutages logs the routes whose servers are now all down, and those that have a server again.
// It runs when the log reports a server and when the routes change, so a flapping server causes no
// more lines here than there. A route whose servers are all in an unknown state is not an outage.
func (f *Forward) tellOutages() {
	f.outages.mu.Lock()
	defer f.outages.mu.Unlock()
	before := f.outages.down
	f.outages.down = map[dnsname.Name]struct{}{}
	var down, up []string
	for _, r := range f.table.Load().order {
		_, was := before[r.Domain]
		switch isUp, isDown := r.state(); {
		case isDown:
			f.outages.down[r.Domain] = struct{}{}
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
		isUp, isDown = isUp || state == exchange.Up, isDown && state == exchange.Down
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

// updateReach updates the reach of each route. It runs when a server has gone or is back, and when
// the routes change.
func (f *Forward) updateReach() {
	f.reaching.Lock()
	defer f.reaching.Unlock()
	for _, r := range f.table.Load().order {
		if isUnreachable := r.isGone(); r.reach.set(isUnreachable) && isUnreachable {
			for _, n := range f.opened() {
				n.post(mail{unreachable: r})
			}
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

// reach records whether all servers of a route are silent. It is set after the first unanswered
// question and its check, long before the log reports an outage. So questions for other names do
// not have to wait for that again.
type reach struct {
	now  atomic.Pointer[reachState]
	next atomic.Int64 // time of the next probe without a waiter, since Forward.began
}

func (r *reach) isLost() bool { return r.now.Load().is }

// set sets whether all servers are silent, and reports whether that changed. The caller holds
// Forward.reaching.
func (r *reach) set(is bool) (isNew bool) {
	switch before := r.now.Load(); {
	case before.is == is:
		return false
	case is:
		r.now.Store(&reachState{known: before.known, is: true})
		close(before.known)
	default:
		r.now.Store(&reachState{known: make(chan struct{})})
	}
	return true
}

// A reachState is one state of a reach.
type reachState struct {
	known chan struct{} // closed once all servers are known to be silent
	is    bool          // known is closed
}
