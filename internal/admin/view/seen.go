package view

import (
	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsserver"
)

// settleOutcome says who has answered on the wire, which the server does not know, as it would be of the same query once parsed. It is done
// for those alone that somebody sees.
func settleOutcome(seen *dnsserver.Seen) {
	if seen.Outcome != dnsserver.ByWire {
		return
	}
	switch rcode, _ := seenRcode(seen); {
	case isAuthoritative(seen):
		seen.Outcome = dnsserver.ByHandler
	case rcode == dns.RcodeServerFailure:
		seen.Outcome, seen.Why = dnsserver.ByFailure, dnsserver.FailedBefore
	default:
		seen.Outcome = dnsserver.ByMemory
	}
}

// isAuthoritative reports whether the response has the AA bit (RFC 1035 section 4.1.1), which no remembered one has, and all others
// have that are made on the wire.
func isAuthoritative(seen *dnsserver.Seen) bool {
	const bitAA = 1 << 2
	return len(seen.Response) > 2 && seen.Response[2]&bitAA != 0
}

// controlClient is the client of what is asked over the control socket.
const controlClient = "control"

// seenClient is who has asked: an address, or controlClient.
func seenClient(seen *dnsserver.Seen) string {
	if !seen.Client.IsValid() {
		return controlClient
	}
	return seen.Client.Addr().Unmap().String()
}
