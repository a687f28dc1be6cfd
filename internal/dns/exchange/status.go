package exchange

import (
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/sys/stats"
)

// A State is the state of a server.
type State string

// The states of a server. Down only means that other servers are queried first. A down server is
// still tried; in coredns issue 2427 it was given up.
const (
	Unknown State = "unknown" // neither a response nor enough failures yet
	Up      State = "up"      // the last result was a response
	Down    State = "down"    // failed failuresToDown times in a row, including the check
)

// A Status is the state of a server, for display.
type Status struct {
	State     State
	Since     time.Time     // when the state began
	RTT       time.Duration // smoothed; 0 means not measured yet
	Failures  uint64        // tries without a response
	Refusals  uint64        // responses without an answer, such as SERVFAIL and REFUSED
	NXDomain  uint64        // NXDOMAIN responses
	Retries   uint64        // questions sent again because the server was silent
	LastError string        // last failure; kept when the server is up again
	UDPSize   uint16        // size of the largest response to request, because larger ones were lost; 0 if none was
	Durations Durations
}

// Status returns the current state.
func (a *Account) Status() Status {
	a.mu.Lock()
	defer a.mu.Unlock()
	return Status{
		State:     a.health.state,
		Since:     a.health.since,
		RTT:       a.health.rtt,
		Failures:  a.health.failures,
		Refusals:  a.health.refusals,
		NXDomain:  a.health.nxdomain,
		Retries:   a.health.retries,
		LastError: a.health.lastError,
		UDPSize:   a.health.sizes.usable(),
		Durations: a.health.durations,
	}
}

// RcodeNames are the classes of responses by rcode, in the order of Durations.
var RcodeNames = [...]string{"NOERROR", "NXDOMAIN", "SERVFAIL", "REFUSED", "other"}

// Durations are the response times of a server over UDP and TLS, by RcodeNames.
type Durations [len(RcodeNames)]stats.Durations

func (d *Durations) add(took time.Duration, rcode int) {
	place := len(d) - 1
	switch rcode {
	case dns.RcodeSuccess:
		place = 0
	case dns.RcodeNameError:
		place = 1
	case dns.RcodeServerFailure:
		place = 2
	case dns.RcodeRefused:
		place = 3
	}
	d[place].Add(took, 1)
}
