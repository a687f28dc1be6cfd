package exchange

import (
	"sync"
	"time"
)

// An Account is the health of one server. It may be used concurrently.
type Account struct {
	mu     sync.Mutex // guards health
	health health
}

// NewAccount returns the account of an unknown server.
func NewAccount(now time.Time) *Account {
	return &Account{health: health{state: Unknown, since: now}}
}

// A Change is the effect of an event.
type Change struct {
	IsNew   bool // the state changed
	IsShift bool // IsGone changed

	IsResized bool   // UDPSize changed
	UDPSize   uint16 // the same as in Status

	// What to log: a state, the number of changes that led to it, and its details. Told is "" if
	// there is nothing to log.
	Told    State
	Changes int
	RTT     time.Duration
	Reason  string
}

// update changes the health and returns the effect.
func (a *Account) update(now time.Time, change func(h *health)) (c Change) {
	a.mu.Lock()
	defer a.mu.Unlock()
	before, wasGone, size := a.health.state, a.health.isGone(), a.health.sizes.usable()
	change(&a.health)
	c.UDPSize = a.health.sizes.usable()
	c.IsResized = c.UDPSize != size
	c.IsNew, c.IsShift = a.health.state != before, a.health.isGone() != wasGone
	c.Told, c.Changes = a.health.tell(now)
	c.RTT, c.Reason = a.health.rtt, a.health.lastError
	return c
}

// Succeeded records a response that took rtt. Any response counts: a server that refuses is alive.
// octets is its size over UDP, or 0 if it came over another transport.
func (a *Account) Succeeded(rtt time.Duration, rcode, octets int, now time.Time) Change {
	return a.update(now, func(h *health) {
		h.succeeded(rtt, now)
		h.sizes.arrived(octets)
		h.durations.add(rtt, rcode)
	})
}

// Answered is Succeeded for a final response. hasOPT means that it has an OPT record.
func (a *Account) Answered(rtt time.Duration, rcode, octets int, hasOPT bool, now time.Time) Change {
	return a.update(now, func(h *health) {
		h.succeeded(rtt, now)
		h.sizes.arrived(octets)
		h.durations.add(rtt, rcode)
		h.heard(rcode, true)
		if hasOPT {
			h.sawEDNS()
		}
	})
}

// Heard records a response whose time was not measured.
func (a *Account) Heard(now time.Time) Change {
	return a.update(now, func(h *health) { h.alive(now) })
}

// Failed records a try without a response. silent means that nothing arrived at all.
func (a *Account) Failed(reason string, silent bool, now time.Time) Change {
	return a.update(now, func(h *health) { h.failed(reason, silent, now) })
}

// Lost records that a response of the given size did not arrive over UDP although the server was
// alive. It counts at most once per pause.
func (a *Account) Lost(octets int, pause time.Duration, now time.Time) Change {
	return a.update(now, func(h *health) { h.sizes.lose(octets, pause, now) })
}

// FailedAgain is Failed for a silent try that was already counted and has now ended.
func (a *Account) FailedAgain(reason string, silent bool, now time.Time) Change {
	return a.update(now, func(h *health) {
		h.failed(reason, silent, now)
		h.failures--
	})
}

// FellSilent records that the server has said nothing since its check began, for longer than it
// nearly always takes.
func (a *Account) FellSilent(begun, now time.Time) Change {
	return a.update(now, func(h *health) { h.isQuiet = h.isQuiet || h.checking && h.heardAt.Before(begun) })
}

// A Parsed describes a parsed response and its query.
type Parsed struct {
	Rcode   int
	IsFinal bool
	HasOPT  bool

	IsAgain       bool // the server did not answer the same question before, and answered it now over UDP
	IsWithoutEDNS bool // the query had no OPT record
	RefusedEDNS   bool // the server rejected a query with EDNS before
}

// Learn records what a response reveals about the server.
func (a *Account) Learn(r Parsed, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	h := &a.health
	h.heard(r.Rcode, r.IsFinal)
	switch {
	case r.HasOPT:
		h.sawEDNS()
	case r.RefusedEDNS && r.IsFinal:
		h.avoidEDNS(now)
	case r.IsAgain && r.IsWithoutEDNS && r.IsFinal:
		h.silentToEDNS(now)
	}
	if r.IsAgain && r.IsFinal && h.cookie.size > ClientCookie {
		h.cookie.silentTo(now)
	}
}

// Retried counts a question that is sent again because the server was silent.
func (a *Account) Retried() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.health.retries++
}

// CountLoop counts a question that the server sends us while the same question from us is pending
// there, unless isCounted. It returns the number of such questions since the server last answered
// one of ours.
func (a *Account) CountLoop(isCounted bool) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !isCounted {
		a.health.looped++
	}
	return a.health.looped
}

// Reached records that the host accepted or refused a TCP connection, and so is alive.
func (a *Account) Reached(now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.health.reachedAt = now
}

// Late records that another server answered during the wait for this one, or instead of it.
func (a *Account) Late(now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.health.late(now)
}

// KeepsUp lowers the lateness if the answer came within the wait for the server, limited to least
// and most. It reports whether it did.
func (a *Account) KeepsUp(took, least, most time.Duration) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.health.keepsUp(took, least, most)
}

// Rank returns the rank of the server. Servers with a lower rank are queried first, whatever their
// configured order.
func (a *Account) Rank() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.health.rank()
}

// Standing returns the rank of the server, the wait for its answer, and whether a probe is due.
func (a *Account) Standing(now time.Time) (rank int, wait time.Duration, mayProbe bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.health.rank(), a.health.wait(), a.health.mayProbe(now)
}

// Wait returns how long to wait for the server before another one is queried as well.
func (a *Account) Wait() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.health.wait()
}

// Usual returns the time within which nearly all responses arrive, or 0 before the first response.
func (a *Account) Usual() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.health.rtt == 0 {
		return 0
	}
	return a.health.wait()
}

// State returns the state.
func (a *Account) State() State {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.health.state
}

// IsGone reports whether the server is down, or was silent to a check for longer than it usually
// takes.
func (a *Account) IsGone() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.health.isGone()
}

// IsDead reports whether the server is down, or was silent to its last check.
func (a *Account) IsDead() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.health.state == Down || a.health.silentToCheck
}

// WasHeard reports whether any response has arrived since then.
func (a *Account) WasHeard(since time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.health.heardAt.Before(since)
}

// WasReached reports whether the server has answered, or its host was reached over TCP, since then.
func (a *Account) WasReached(since time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.health.heardAt.Before(since) || !a.health.reachedAt.Before(since)
}

// StartProbe reports whether a live question should also go to this server as a probe. If so,
// EndProbe must be called.
func (a *Account) StartProbe(now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.health.startProbe(now)
}

// EndProbe ends the probe.
func (a *Account) EndProbe() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.health.probing = false
}

// AskedAnyway records that the server is queried although it is late, because no server is better.
func (a *Account) AskedAnyway(now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.health.rank() > 0 && a.health.state != Down {
		a.health.nextProbe = now.Add(betweenProbes)
	}
}

// StartCheck reports whether to check the server, which was just silent. If so, EndCheck must be
// called.
func (a *Account) StartCheck(now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.health.startCheck(now)
}

// EndCheck ends the check and records whether the server was silent to it.
func (a *Account) EndCheck(silent bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.health.checking, a.health.silentToCheck = false, silent
}

// UsesEDNS reports whether a query to the server should have an OPT record. silentSince is the time
// of an earlier query for the same question that the server did not answer, or zero. needs means
// that the answer would be incomplete without EDNS. size is the largest response to request; it
// does not exceed most.
func (a *Account) UsesEDNS(silentSince time.Time, needs bool, most uint16, now time.Time) (uses bool, size uint16) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.health.useEDNS(silentSince, needs, now), a.health.sizes.ask(most, now)
}

// ForgetTimes resets the response times of the server. Its state stays.
func (a *Account) ForgetTimes() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.health.rtt, a.health.rttVar, a.health.lateness = 0, 0, 0
}
