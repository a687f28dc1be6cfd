package view

import (
	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/dnsserver"
)

// settleOutcome sets the source of an answer from the fast path, which the server does not know, to
// the one that the slow path would report. It runs only for queries that a watcher selects.
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

// isAuthoritative reports whether the response has the AA bit (RFC 1035 section 4.1.1). On the fast
// path, cached responses never have it and all others do.
func isAuthoritative(seen *dnsserver.Seen) bool {
	const bitAA = 1 << 2
	return len(seen.Response) > 2 && seen.Response[2]&bitAA != 0
}

// controlClient is the client of queries over the control socket.
const controlClient = "control"

// seenClient returns the client: an address, or controlClient.
func seenClient(seen *dnsserver.Seen) string {
	if !seen.Client.IsValid() {
		return controlClient
	}
	return seen.Client.Addr().Unmap().String()
}
