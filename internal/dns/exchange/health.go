package exchange

import (
	"time"

	"github.com/miekg/dns"
)

const (
	failuresToDown = 3
	rttWeight      = 8 // RFC 6298 section 2: a new sample counts an eighth
	varWeight      = 4 // a quarter in its variation
	firstProbe     = time.Second
	longestProbe   = 15 * time.Second
	betweenProbes  = time.Second / 10 // of a late server
	betweenChecks  = time.Second / 4
	plainToAvoid   = 3
	plainFor       = 15 * time.Minute // as in unbound (infra-host-ttl)
	tellBurst      = 4                // changes that are logged immediately
	tellEvery      = time.Minute      // interval between later ones
)

// health is an Account without its lock. It sends nothing and has no clock: its callers say what
// happens and when, and ask what that means for the next question.
type health struct {
	state     State
	since     time.Time     // when the state began
	rtt       time.Duration // smoothed; 0 means not measured yet
	rttVar    time.Duration // variation of rtt (RFC 6298)
	heardAt   time.Time     // time of the last response of any kind
	reachedAt time.Time     // time of the last TCP connection that was accepted or refused
	lateness  lateness
	inRow     int // failures since the last response
	failures  uint64
	refusals  uint64 // responses without an answer, such as SERVFAIL and REFUSED
	nxdomain  uint64
	retries   uint64 // questions sent again because the server was silent
	durations Durations
	lastError string

	probing   bool
	nextProbe time.Time
	backoff   time.Duration

	checking      bool
	nextCheck     time.Time
	silentToCheck bool // to the last check, and no response since
	isQuiet       bool // it was silent to a check for longer than usual, and no response since

	logged   State     // last state in the log
	unlogged int       // state changes since the last log line
	tellFull time.Time // time when tellBurst changes may be logged at once again

	knowsEDNS bool // it sent an OPT record
	plainOnly int  // consecutive questions that it answered only without EDNS
	plainTill time.Time

	sizes      sizes
	cookie     cookie
	lowerTill  time.Time // end of the time in which queries are in lower case
	mismatches int       // consecutive responses that may be forged

	looped int // questions that it sent us while ours was the same, since it last answered one of ours
}

// succeeded records a response that took rtt.
func (h *health) succeeded(rtt time.Duration, now time.Time) {
	if h.rtt == 0 {
		h.rtt, h.rttVar = max(rtt, 1), rtt/2
	} else {
		h.rttVar += ((rtt - h.rtt).Abs() - h.rttVar) / varWeight
		h.rtt += (rtt - h.rtt) / rttWeight
	}
	h.alive(now)
}

// alive records a response of any kind.
func (h *health) alive(now time.Time) {
	h.heardAt = now
	h.inRow, h.backoff, h.silentToCheck, h.isQuiet = 0, 0, false, false
	h.become(Up, now)
}

// failed records a try without a response. silent means that nothing arrived at all. That may be
// due to the name, whose own nameservers the server waits for. So silence marks a server as down
// only if the server was silent to the check, too.
func (h *health) failed(reason string, silent bool, now time.Time) {
	h.failures++
	h.inRow++
	h.lastError = reason
	if h.inRow < failuresToDown || h.state == Down || silent && !h.silentToCheck {
		return
	}
	h.become(Down, now)
	h.knowsEDNS, h.sizes = false, sizes{} // another server may be at that address later
	h.cookie.forget(now)
	h.backoff = firstProbe
	h.nextProbe = now.Add(firstProbe)
}

// heard records the result of a response.
func (h *health) heard(rcode int, isFinal bool) {
	if isFinal {
		h.looped = 0
	}
	switch {
	case !isFinal:
		h.refusals++
	case rcode == dns.RcodeNameError:
		h.nxdomain++
	}
}

func (h *health) become(state State, now time.Time) {
	if h.state != state {
		h.state, h.since = state, now
		h.unlogged++
	}
}

// isGone reports whether no answer is expected now. A quiet server may only have paused for a
// moment: unlike a server that is down, it is asked as before, and nothing is logged.
func (h *health) isGone() bool { return h.isQuiet || h.state == Down }

// startCheck reports whether to check the server, which was just silent, with a question that every
// nameserver answers at once. If so, the check has begun.
func (h *health) startCheck(now time.Time) bool {
	if h.state == Down || h.checking || h.silentToCheck || now.Before(h.nextCheck) {
		return false
	}
	h.checking = true
	h.nextCheck = now.Add(betweenChecks)
	return true
}

// tell returns what to log: a state that differs from the last logged one, and the number of
// changes that led to it. A flapping server is logged once a minute, with its next response or
// failure.
func (h *health) tell(now time.Time) (state State, changes int) {
	if h.logged == "" && h.state == Up {
		h.logged, h.unlogged = Up, 0 // the first response is not worth logging
	}
	if h.state == h.logged || h.state == Unknown || h.tellFull.Sub(now) > (tellBurst-1)*tellEvery {
		return "", 0
	}
	if h.tellFull.Before(now) {
		h.tellFull = now
	}
	h.tellFull = h.tellFull.Add(tellEvery)
	changes = h.unlogged
	h.logged, h.unlogged = h.state, 0
	return h.state, changes
}

// startProbe reports whether a live question should also go to the server, to see whether it has
// recovered. If so, the probe has begun, and the wait until the next one doubles.
func (h *health) startProbe(now time.Time) bool {
	if !h.mayProbe(now) {
		return false
	}
	h.probing = true
	h.nextProbe = now.Add(betweenProbes)
	if h.state == Down {
		h.backoff = min(2*h.backoff, longestProbe)
		h.nextProbe = now.Add(h.backoff)
	}
	return true
}

func (h *health) mayProbe(now time.Time) bool {
	return h.rank() > 0 && !h.probing && !now.Before(h.nextProbe)
}

// useEDNS reports whether a query to the server should have an OPT record. silentSince is the time
// of an earlier query for the same question that the server did not answer, or zero. Servers and
// firewalls that drop queries with an OPT record behave like that, unless the server has sent one
// and has answered others since. needs means that the answer would be incomplete without EDNS.
func (h *health) useEDNS(silentSince time.Time, needs bool, now time.Time) bool {
	switch {
	case now.Before(h.plainTill):
		return false
	case silentSince.IsZero():
		return true
	}
	return h.knowsEDNS && (needs || !h.heardAt.Before(silentSince))
}

// sawEDNS records a response with an OPT record.
func (h *health) sawEDNS() { h.knowsEDNS, h.plainOnly = true, 0 }

// silentToEDNS records that the server answered only without EDNS. Once or twice may be packet
// loss.
func (h *health) silentToEDNS(now time.Time) {
	if h.plainOnly++; h.plainOnly >= plainToAvoid {
		h.avoidEDNS(now)
	}
}

// avoidEDNS records that the server responds only to queries without EDNS.
func (h *health) avoidEDNS(now time.Time) {
	h.knowsEDNS, h.plainOnly = false, 0
	h.plainTill = now.Add(plainFor)
}
