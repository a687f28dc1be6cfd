package forward

import (
	"sync/atomic"
	"time"

	"github.com/node-dns/node-dns/internal/dnsname"
)

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

// become is called by one at a time.
func (d *darkness) become(is bool) {
	switch before := d.now.Load(); {
	case before.is == is:
	case is:
		d.now.Store(&dark{known: before.known, is: true})
		close(before.known)
	default:
		d.now.Store(&dark{known: make(chan struct{})})
	}
}

// darken has each route know whether it is dark now. It is called when a server has gone or is back, and when the routes change.
func (f *Forward) darken() {
	f.darkening.Lock()
	defer f.darkening.Unlock()
	for _, r := range f.table.Load().order {
		r.dark.become(r.isGone())
	}
}

// isGone reports whether all servers of the route have gone. A route without servers is none.
func (r *route) isGone() bool {
	for _, s := range r.servers {
		if !s.isGone() {
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

// stalls are in how many parts the time of a check passes. Where this process did not run for a while, as it has so much of the
// processor and no more, there is an answer to be read: that takes one part.
const stalls = 4

// hasPassed waits, and reports false if ended is closed before.
func hasPassed(d time.Duration, ended <-chan struct{}) bool {
	for range stalls {
		select {
		case <-time.After(d / stalls):
		case <-ended:
			return false
		}
	}
	return true
}

// fallSilent notes that the server has said nothing since its check began, for as long as nearly no answer of it takes.
func (s *server) fallSilent(begun time.Time) {
	s.account(time.Now(), func(h *health, _ time.Time) { h.isQuiet = h.isQuiet || h.checking && h.heardAt.Before(begun) })
}

func (s *server) isQuiet() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.health.isQuiet
}

func (s *server) isGone() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.health.isGone()
}

// isGone reports whether nothing is to be expected of the server for now. Unlike one that is down it is asked as before, and
// nobody is told: it may have paused for a moment.
func (h *health) isGone() bool { return h.isQuiet || h.state == Down }
