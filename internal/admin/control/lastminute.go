package control

import (
	"fmt"
	"time"
)

// LastMinute holds the listeners' counts for the last minute, or since the start if that is
// shorter. P50 and P99 are bucket bounds of a histogram.
type LastMinute struct {
	Over      time.Duration `json:"overNanoseconds"` // length of the period: a minute and up to ten seconds more
	Queries   uint64        `json:"queries"`
	Responses uint64        `json:"responses"`
	P50       time.Duration `json:"p50Nanoseconds"` // half of the responses took at most this long; 0 if there were none or they took very long
	P99       time.Duration `json:"p99Nanoseconds"`
	NXDomain  uint64        `json:"nxdomain"`
	ServFail  uint64        `json:"servfail"`
	Refused   uint64        `json:"refused"`   // REFUSED for any reason
	Strangers uint64        `json:"strangers"` // queries of clients without access
	Limited   uint64        `json:"limited"`   // queries that were refused or failed at another limit
	// Servers are those that left questions unanswered. One question may take several tries.
	Servers []ServerMinute `json:"servers,omitempty"`
	// Recorded is the number of SERVFAIL and REFUSED responses that Routes, Clients and Reasons
	// count. These are all of them, but at most 200 a second and none to Strangers. Each list has
	// at most five elements, most failures first.
	Recorded uint64         `json:"recorded"`
	Routes   []RouteMinute  `json:"routes,omitempty"`
	Clients  []ClientMinute `json:"clients,omitempty"` // for admins only
	Reasons  []ReasonMinute `json:"reasons,omitempty"` // for admins only
}

// RouteMinute holds the counts for the last minute of the names of one route, or of one of the
// cluster's zones. Only routes with failures are listed.
type RouteMinute struct {
	Domain     string `json:"domain"`
	Queries    uint64 `json:"queries"`    // queries sent to the servers of the route
	Unanswered uint64 `json:"unanswered"` // of these, the ones without an answer
	ServFail   uint64 `json:"servfail"`   // responses to clients
	Refused    uint64 `json:"refused"`
}

// ClientMinute is a client with failed responses in the last minute.
type ClientMinute struct {
	Client   string `json:"client"`        // address
	Pod      string `json:"pod,omitempty"` // NAMESPACE/NAME; empty if unknown or if the client is not a pod with its own address
	ServFail uint64 `json:"servfail"`
	Refused  uint64 `json:"refused"`
}

// ReasonMinute is a reason for failed responses in the last minute.
type ReasonMinute struct {
	Reason   string `json:"reason"`
	ServFail uint64 `json:"servfail"`
	Refused  uint64 `json:"refused"`
}

// ServerMinute holds one nameserver's counts for the last minute.
type ServerMinute struct {
	Address  string `json:"address"`
	Queries  uint64 `json:"queries"`  // queries sent to it
	Failures uint64 `json:"failures"` // tries without a response
	Refusals uint64 `json:"refusals"` // SERVFAIL, REFUSED and similar responses
}

// manyNXDomain is the share of NXDOMAIN above which the text explains the likely cause.
const manyNXDomain = 0.5

// name returns the title of the row.
func (l LastMinute) name() string {
	if l.Over < time.Minute {
		return "Last " + age(l.Over)
	}
	return "Last minute"
}

func (l LastMinute) text() string {
	text := number(l.Queries, "query", "queries")
	if l.Responses == 0 {
		return text
	}
	share := float64(l.NXDomain) / float64(l.Responses)
	text += "   p50 " + bound(l.P50) + "   p99 " + bound(l.P99) + fmt.Sprintf("   NXDOMAIN %.0f %%", 100*share)
	if share >= manyNXDomain {
		text += " (search lists cause many)"
	}
	return text + fmt.Sprintf("   SERVFAIL %d", l.ServFail)
}

func bound(d time.Duration) string {
	if d == 0 {
		return "> 8s"
	}
	return "< " + milliseconds(d)
}
