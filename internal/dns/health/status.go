package health

import (
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/sys/percpu"
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

// A Status is what is known about a server, for people.
type Status struct {
	State     State
	Since     time.Time     // of the state
	RTT       time.Duration // smoothed; 0: not measured yet
	Failures  uint64        // tries without a response
	Refusals  uint64        // responses that are no answer: SERVFAIL, REFUSED and the like
	NXDomain  uint64        // responses that there is no such name
	Retries   uint64        // questions sent again, as it was silent to them
	LastError string        // of the last failure, also when the server is up again
	UDPSize   uint16        // of the largest response to ask for, as larger ones were lost; 0: none was
	Durations Durations
}

// Status returns what is known now.
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

// RcodeNames are the response codes by which a server's responses are told apart, in the order of Durations.
var RcodeNames = [...]string{"NOERROR", "NXDOMAIN", "SERVFAIL", "REFUSED", "other"}

// Durations are how long a server took for its responses over UDP and TLS, by RcodeNames.
type Durations [len(RcodeNames)]percpu.Durations

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
