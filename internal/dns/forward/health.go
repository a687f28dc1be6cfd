package forward

import (
	"sync"
	"time"

	"github.com/miekg/dns"
)

// A State is what is known about a server.
type State string

// The states of a server. Down only means that others are asked first: such a
// server is never given up (coredns issue 2427 was one that was).
const (
	Unknown State = "unknown" // has neither responded nor failed often enough
	Up      State = "up"      // responded last
	Down    State = "down"    // failed failuresToDown times in a row, and did not answer the check either
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

// health is the account of one server. It knows no clock and no lock; its users
// give it both.
type health struct {
	state     State
	since     time.Time     // of the state
	rtt       time.Duration // smoothed; 0 means none was measured
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
	isQuiet       bool // since the last response it was silent to a check for longer than it takes as a rule

	told     State     // what the log says last
	untold   int       // changes of state since then
	tellFull time.Time // when tellBurst changes may be logged at once again

	knowsEDNS bool // an OPT record came from it
	plainOnly int  // questions in a row that it answered only without EDNS
	plainTill time.Time

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
	h.knowsEDNS = false // what answers there next may be another server
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

// tell returns what the log is to say: a state that it does not say yet, and how many changes led to it. One that comes and
// goes is told of once a minute: it is the next response or failure after that which tells.
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

// lateness is how often, of late, another server had the answer while this one was waited for, in parts of 1024: an average in
// which each time counts a quarter, and each response that came an eighth. A server that is often late is asked behind the
// others, and by probes, until it keeps up with them again. One that loses three packets of ten gets to 460.
type lateness int32

const (
	alwaysLate = 1024
	oftenLate  = 512 // not once, nor twice: three times in a row
	mostlyLate = 720
)

// keepsUp improves the lateness if the answer came within the wait for the server, bounded by least and most. It reports whether it did.
func (h *health) keepsUp(took, least, most time.Duration) bool {
	isInTime := took <= max(min(h.wait(), most), least)
	if isInTime {
		h.lateness = h.lateness.met()
	}
	return isInTime
}

// down is the rank of a server that is.
const down = 3

func (l lateness) missed() lateness { return l + (alwaysLate-l)/4 }
func (l lateness) met() lateness    { return l - (l+7)/8 }

// rank says where a server stands: one of a lower rank is asked before it, however they were configured.
func (h *health) rank() int {
	switch {
	case h.state == Down:
		return down
	case h.lateness >= mostlyLate:
		return 2
	case h.lateness >= oftenLate:
		return 1
	}
	return 0
}

// late notes that another server had the answer first.
func (h *health) late(now time.Time) {
	before := h.rank()
	if h.lateness = h.lateness.missed(); before == 0 && h.rank() > 0 {
		h.nextProbe = now.Add(betweenProbes)
	}
}

// unmeasured is how long a server is waited for that has not responded yet.
const unmeasured = 25 * time.Millisecond

// wait is how long the server is waited for before the next one is asked as well: until a response is later than nearly all
// are.
func (h *health) wait() time.Duration {
	if h.rtt == 0 {
		return unmeasured
	}
	return 2*h.rtt + 4*h.rttVar
}

// resendAfter is how long a question is waited for at least before it is sent to the same server again, and longer each time:
// what is so late is lost, or the server asks others for it, and has it no sooner for being asked twice.
const resendAfter = 100 * time.Millisecond

// waitFor is how long a server is waited for before another is asked as well, or the same one again. n is how many were asked
// before.
func (f *Forward) waitFor(s *server, again bool, n int) time.Duration {
	return f.bounded(s.wait(), again, n)
}

func (f *Forward) bounded(wait time.Duration, again bool, n int) time.Duration {
	most := f.tryTimeout
	if again {
		wait = max(wait, resendAfter*time.Duration(n+1))
		most = max(most, min(f.silence, 2*resendAfter+wait))
	}
	return max(min(wait, most), f.hedge)
}

// hedges bounds wasted hedges: questions to a second server where the first one had the answer soon after. A hedge costs nothing if
// the first server was silent to all questions or had no answer. So names without an answer never use up the budget of other names.
// One question in 25 may be wasted, and 100 at once.
type hedges struct {
	mu    sync.Mutex // guards what follows
	asked uint64     // questions, when it was looked at last
	spent int        // in parts of a question
}

const (
	hedgeCost = 25
	mostSpent = 100 * hedgeCost
)

// may reports whether the budget allows a hedge.
func (h *hedges) may(asked uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.earn(asked)
	return h.spent+hedgeCost <= mostSpent
}

// waste charges the budget for a wasted hedge.
func (h *hedges) waste(asked uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.earn(asked)
	h.spent += hedgeCost
}

func (h *hedges) earn(asked uint64) {
	h.spent = max(0, h.spent-int(min(asked-h.asked, mostSpent)))
	h.asked = asked
}
