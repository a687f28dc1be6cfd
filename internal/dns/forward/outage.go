package forward

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/exchange"
	"github.com/node-dns/node-dns/internal/dns/health"
	"github.com/node-dns/node-dns/internal/sys/journal"
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
		state := s.State()
		isUp, isDown = isUp || state == health.Up, isDown && state == health.Down
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

// betweenDark is the time from one question to the next that nobody waits for, while a route is dark: any name's will do to see
// whether a server is back.
const betweenDark = time.Second / 2

// darkness is whether anybody is there to answer what takes a route. It is known from the first question that nobody answers
// and the check that follows it, long before the log tells of an outage: a question for another name need not find out again.
type darkness struct {
	now  atomic.Pointer[dark]
	next atomic.Int64 // when a question may be asked that nobody waits for, as since Forward.began
}

// dark is one state of a darkness.
type dark struct {
	known chan struct{} // closed once it is known
	is    bool          // it is closed
}

func (d *darkness) is() bool { return d.now.Load().is }

// become is called by one at a time. It reports whether that is new.
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

// darken has each route know whether it is dark now. It is called when a server has gone or is back, and when the routes change.
func (f *Forward) darken() {
	f.darkening.Lock()
	defer f.darkening.Unlock()
	for _, r := range f.table.Load().order {
		if isDark := r.isGone(); r.dark.become(isDark) && isDark {
			f.tellLanes(mail{dark: r})
		}
	}
}

// isGone reports whether all servers of the route have gone. A route without servers is none.
func (r *route) isGone() bool {
	for _, s := range r.servers {
		if !s.IsGone() {
			return false
		}
	}
	return len(r.servers) > 0
}

// Dark returns a channel that is closed once it is known that no server answers of those that a name would be asked of: there
// may be an answer, but not soon. What is asked all the same may find one again, and whoever asks then gets another channel. nil:
// the name is asked of nobody.
func (f *Forward) Dark(name dnsname.Name) <-chan struct{} {
	r := f.table.Load().match(name)
	if r == nil || r.Local {
		return nil
	}
	return r.dark.now.Load().known
}

// MayProbe reports whether a name may be asked for while nobody waits for the answer. While no server answers that is one name in
// half a second, whichever it is.
func (f *Forward) MayProbe(name dnsname.Name) bool {
	r := f.table.Load().match(name)
	if r == nil || !r.dark.is() {
		return true
	}
	now, next := int64(time.Since(f.began)), r.dark.next.Load()
	return now >= next && r.dark.next.CompareAndSwap(next, now+int64(betweenDark))
}

// alive is the factor on Silence for a server that accepts connections but does not answer: it may be slow.
const alive = 3

// check asks a silent server for the root's nameservers, which every nameserver knows or refuses to tell. So slow names alone do not
// mark a server as down.
// It asks over UDP and TCP at the same time. A server that accepts the TCP connection gets more time: servers that took 2 s for
// every name were marked as dead, and no client got an answer.
// With opportunistic TLS it checks the connection first, because the server may still answer without it.
func (n *lane) check(s *server) {
	if u, conn := s.upgraded(); conn != nil {
		u.Check(conn, n.f.tryTimeout)
		return
	}
	k, err := exchange.RootQuestion().AppendKey(nil)
	if err != nil || n.closing.Load() || !s.StartCheck(time.Now()) {
		return
	}
	n.mu.Lock()
	fl := n.newFlightLocked(departure{key: k, now: time.Now()}, 0)
	fl.check = s
	n.mu.Unlock()
	n.openRound(fl)
	n.proceed(fl)
}

// checksOf returns the attempts of a check, which all begin at once.
func checksOf(s *server) []attempt {
	if s.tls != nil {
		return []attempt{{to: s}}
	}
	return []attempt{{to: s}, {to: s, tcp: true}}
}

// checked records the result of a check.
func (n *lane) checked(fl *flight, err error) {
	s := fl.check
	isOpen := func(t *try) bool { return t.stop == nil || s.tls != nil } // UDP, where silence is the only sign of a dead server
	isSilent := err != nil && !s.WasHeard(fl.begun) && slices.ContainsFunc(fl.tries, isOpen)
	s.EndCheck(isSilent)
	if isSilent {
		s.timedOut(n.now.Sub(fl.begun))
	}
}

// checkWait is the time after which a check reports that the server is silent for now.
func (f *Forward) checkWait(s *server) time.Duration {
	return max(2*f.hedge, min(s.Usual(), f.tryTimeout))
}

// checkTime is the length of a check if the server accepts no connection either: most of the lifetime of a question to a silent
// server, or longer for a server that is far away.
func (f *Forward) checkTime(s *server) time.Duration {
	return max(f.silence*3/4, min(2*s.Usual(), alive*f.silence))
}
