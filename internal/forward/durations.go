package forward

import (
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/counting"
)

// RcodeNames are the response codes by which a server's responses are told apart, in the order of Durations.
var RcodeNames = [...]string{"NOERROR", "NXDOMAIN", "SERVFAIL", "REFUSED", "other"}

// Durations are how long a server took for its responses over UDP and TLS, by RcodeNames.
type Durations [len(RcodeNames)]counting.Durations

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
