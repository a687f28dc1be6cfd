package health

import (
	"sync"
	"time"

	"github.com/node-dns/node-dns/internal/dns/exchange"
)

// An Account is the health of one server, for many goroutines.
type Account struct {
	mu     sync.Mutex // guards health
	health health
}

// New returns the account of a server of which nothing is known.
func New(now time.Time) *Account {
	return &Account{health: health{state: Unknown, since: now}}
}

// A Change is what an event changed.
type Change struct {
	IsNew   bool // the state
	IsShift bool // whether the server has gone

	IsResized bool   // UDPSize
	UDPSize   uint16 // that of Status

	// What the log is to say: a state, how many changes led to it, and what was known then. Told is "" for nothing.
	Told    State
	Changes int
	RTT     time.Duration
	Reason  string
}

// update changes the health, and returns what that changed.
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

// Succeeded accounts for a response that took rtt, whatever it says: a server that refuses is
// there. octets is its size over UDP; 0: it came another way.
func (a *Account) Succeeded(rtt time.Duration, rcode, octets int, now time.Time) Change {
	return a.update(now, func(h *health) {
		h.succeeded(rtt, now)
		h.sizes.arrived(octets)
		h.durations.add(rtt, rcode)
	})
}

// Answered is Succeeded for a response that is final, and hasOPT if it has an OPT record.
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

// Heard accounts for a response whose time was not measured.
func (a *Account) Heard(now time.Time) Change {
	return a.update(now, func(h *health) { h.alive(now) })
}

// Failed accounts for a try without a response. silent means that nothing came at all.
func (a *Account) Failed(reason string, silent bool, now time.Time) Change {
	return a.update(now, func(h *health) { h.failed(reason, silent, now) })
}

// Lost notes that a response of so many octets, which was asked for over UDP, did not arrive,
// though the server was there. It counts once in a pause.
func (a *Account) Lost(octets int, pause time.Duration, now time.Time) Change {
	return a.update(now, func(h *health) { h.sizes.lose(octets, pause, now) })
}

// FailedAgain is Failed for a try that is counted already: it was silent, and now its end is known.
func (a *Account) FailedAgain(reason string, silent bool, now time.Time) Change {
	return a.update(now, func(h *health) {
		h.failed(reason, silent, now)
		h.failures--
	})
}

// FellSilent notes that the server has said nothing since its check began, for as long as nearly no answer of it takes.
func (a *Account) FellSilent(begun, now time.Time) Change {
	return a.update(now, func(h *health) { h.isQuiet = h.isQuiet || h.checking && h.heardAt.Before(begun) })
}

// A Response is what a parsed response says, and to what query.
type Response struct {
	Rcode   int
	IsFinal bool
	HasOPT  bool

	IsAgain       bool // the server was silent to the same question before, and answered it over UDP
	IsWithoutEDNS bool // the query had no OPT record
	RefusedEDNS   bool // the server refused one with it before
}

// Learn takes what a response says.
func (a *Account) Learn(r Response, now time.Time) {
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
	if r.IsAgain && r.IsFinal && h.cookie.size > exchange.ClientCookie {
		h.cookie.silentTo(now)
	}
}

// Retried counts a question that is sent again, as the server was silent to it.
func (a *Account) Retried() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.health.retries++
}

// CameBack counts a question that the server asks us while we ask it, unless it isCounted already. It returns how many came since
// the server answered one of ours.
func (a *Account) CameBack(isCounted bool) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !isCounted {
		a.health.comebacks++
	}
	return a.health.comebacks
}

// Reached records that the host accepted or refused a TCP connection, and so is alive.
func (a *Account) Reached(now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.health.reachedAt = now
}

// Late notes that another server had the answer while this one was waited for, or instead of it.
func (a *Account) Late(now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.health.late(now)
}

// KeepsUp improves the lateness if the answer came within the wait for the server, bounded by least and most. It reports whether it
// did.
func (a *Account) KeepsUp(took, least, most time.Duration) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.health.keepsUp(took, least, most)
}

// Rank says where the server stands: one of a lower rank is asked before it, however they were configured.
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

// Wait is how long the server is waited for before another is asked as well.
func (a *Account) Wait() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.health.wait()
}

// Usual is the time within which nearly all its responses come; 0: no response has come yet.
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

// IsGone reports whether the server is down, or was silent to a check for longer than it usually takes.
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

// WasHeard reports whether a response came since then, to whatever question.
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

// StartProbe reports whether a live question is due to be sent to the server beside the one that is asked. EndProbe ends the probe.
func (a *Account) StartProbe(now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.health.startProbe(now)
}

// EndProbe notes that the probe has ended.
func (a *Account) EndProbe() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.health.probing = false
}

// AskedAnyway notes that the server is asked though it is late: no server is better.
func (a *Account) AskedAnyway(now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.health.rank() > 0 && a.health.state != Down {
		a.health.nextProbe = now.Add(betweenProbes)
	}
}

// StartCheck reports whether the server, which was just silent, is to be checked. EndCheck ends the check.
func (a *Account) StartCheck(now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.health.startCheck(now)
}

// EndCheck notes that the check has ended, and whether the server was silent to it.
func (a *Account) EndCheck(silent bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.health.checking, a.health.silentToCheck = false, silent
}

// UsesEDNS reports whether a query to the server has an OPT record. silentSince is when it was sent
// the same question before, to which it was silent; zero: it was not. needs says that without EDNS
// the answer would lack something. size is that of the largest response to ask for, of those of at
// most the given size.
func (a *Account) UsesEDNS(silentSince time.Time, needs bool, most uint16, now time.Time) (uses bool, size uint16) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.health.useEDNS(silentSince, needs, now), a.health.sizes.ask(most, now)
}

// ForgetTimes forgets how long the server took. Its state stays.
func (a *Account) ForgetTimes() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.health.rtt, a.health.rttVar, a.health.lateness = 0, 0, 0
}
