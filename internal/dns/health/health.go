// Package health is what is known about one nameserver: whether it is there, how long it takes, and what it understands of EDNS,
// cookies and the case of letters.
//
// It sends nothing and has no clock: package forward says what happened and when, and asks what follows for the next question.
package health

import (
	"time"

	"github.com/miekg/dns"
)

const (
	failuresToDown = 3
	rttWeight      = 8 // RFC 6298 section 2: a new sample counts an eighth
	varWeight      = 4 // and a quarter in its variation
	firstProbe     = time.Second
	longestProbe   = 15 * time.Second
	betweenProbes  = time.Second / 10 // of one that is late
	betweenChecks  = time.Second / 4
	plainToAvoid   = 3
	plainFor       = 15 * time.Minute // as long as unbound remembers (infra-host-ttl)
	tellBurst      = 4                // changes that are logged as they come
	tellEvery      = time.Minute      // between those after them
)

// health is an Account without its lock.
type health struct {
	state     State
	since     time.Time     // of the state
	rtt       time.Duration // smoothed; 0: not measured yet
	rttVar    time.Duration // its variation, RFC 6298
	heardAt   time.Time     // of the last response, whatever it says
	reachedAt time.Time     // when it last took a connection
	lateness  lateness
	inRow     int // failures since the last response
	failures  uint64
	refusals  uint64 // responses that are no answer: SERVFAIL, REFUSED and the like
	nxdomain  uint64
	retries   uint64 // questions sent again, as it was silent to them
	durations Durations
	lastError string

	probing   bool
	nextProbe time.Time
	backoff   time.Duration

	checking      bool
	nextCheck     time.Time
	silentToCheck bool // since the last response
	isQuiet       bool // since the last response it was silent to a check for longer than it usually takes

	told     State     // what the log says last
	untold   int       // changes of state since then
	tellFull time.Time // when tellBurst changes may be logged at once again

	knowsEDNS bool // an OPT record came from it
	plainOnly int  // questions in a row that it answered only without EDNS
	plainTill time.Time

	sizes     sizes
	cookie    cookie
	lowerTill time.Time // until when its questions are in lower case
	doubts    int       // responses in a row that may not be its own

	comebacks int // questions that it has asked us while we asked it, since it answered one of ours
}

// succeeded accounts for a response that took rtt.
func (h *health) succeeded(rtt time.Duration, now time.Time) {
	if h.rtt == 0 {
		h.rtt, h.rttVar = max(rtt, 1), rtt/2
	} else {
		h.rttVar += ((rtt - h.rtt).Abs() - h.rttVar) / varWeight
		h.rtt += (rtt - h.rtt) / rttWeight
	}
	h.alive(now)
}

// alive accounts for a response of whatever kind.
func (h *health) alive(now time.Time) {
	h.heardAt = now
	h.inRow, h.backoff, h.silentToCheck, h.isQuiet = 0, 0, false, false
	h.become(Up, now)
}

// failed accounts for a try without a response. silent means that nothing came at all: that may be the name, whose own
// nameservers the server waits for, and takes a server down only when it was silent to the check too.
func (h *health) failed(reason string, silent bool, now time.Time) {
	h.failures++
	h.inRow++
	h.lastError = reason
	if h.inRow < failuresToDown || h.state == Down || silent && !h.silentToCheck {
		return
	}
	h.become(Down, now)
	h.knowsEDNS, h.sizes = false, sizes{} // what answers there next may be another server
	h.cookie.forget(now)
	h.backoff = firstProbe
	h.nextProbe = now.Add(firstProbe)
}

// heard accounts for what a response says.
func (h *health) heard(rcode int, isFinal bool) {
	if isFinal {
		h.comebacks = 0
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
		h.untold++
	}
}

// isGone reports whether no answer is expected now. A quiet server may have paused for a moment: unlike one that is down it is asked
// as before, and nothing is logged.
func (h *health) isGone() bool { return h.isQuiet || h.state == Down }

// startCheck reports whether the server, which was just silent, is to be asked a question that every nameserver answers
// at once. If so the check counts as begun.
func (h *health) startCheck(now time.Time) bool {
	if h.state == Down || h.checking || h.silentToCheck || now.Before(h.nextCheck) {
		return false
	}
	h.checking = true
	h.nextCheck = now.Add(betweenChecks)
	return true
}

// tell returns what the log is to say: a state that it does not say yet, and the number of changes
// that led to it. A server that comes and goes is logged once a minute, by the next response or
// failure.
func (h *health) tell(now time.Time) (state State, changes int) {
	if h.told == "" && h.state == Up {
		h.told, h.untold = Up, 0 // that the first response comes is no news
	}
	if h.state == h.told || h.state == Unknown || h.tellFull.Sub(now) > (tellBurst-1)*tellEvery {
		return "", 0
	}
	if h.tellFull.Before(now) {
		h.tellFull = now
	}
	h.tellFull = h.tellFull.Add(tellEvery)
	changes = h.untold
	h.told, h.untold = h.state, 0
	return h.state, changes
}

// startProbe reports whether a live question is due to be sent to the server
// beside the one that is asked, to see whether it is back. If so the probe counts
// as begun, and the next one waits twice as long.
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

// useEDNS reports whether a query to the server has an OPT record. silentSince is when it was sent the same question before, to which
// it was silent; zero: it was not. Servers and firewalls that drop what has an OPT record look like that, unless one was seen from
// there, and the server has answered others since. needs says that without EDNS the answer would lack something.
func (h *health) useEDNS(silentSince time.Time, needs bool, now time.Time) bool {
	switch {
	case now.Before(h.plainTill):
		return false
	case silentSince.IsZero():
		return true
	}
	return h.knowsEDNS && (needs || !h.heardAt.Before(silentSince))
}

// sawEDNS notes a response with an OPT record.
func (h *health) sawEDNS() { h.knowsEDNS, h.plainOnly = true, 0 }

// silentToEDNS notes that the server answered without EDNS what it was silent to
// with it. Once or twice may be lost packets.
func (h *health) silentToEDNS(now time.Time) {
	if h.plainOnly++; h.plainOnly >= plainToAvoid {
		h.avoidEDNS(now)
	}
}

// avoidEDNS notes that the server responds to queries without EDNS only.
func (h *health) avoidEDNS(now time.Time) {
	h.knowsEDNS, h.plainOnly = false, 0
	h.plainTill = now.Add(plainFor)
}
