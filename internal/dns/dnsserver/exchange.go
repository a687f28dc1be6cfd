package dnsserver

import (
	"net/netip"
	"time"
)

// exchange is one received message for which a response is made.
type exchange struct {
	wire          []byte // as received; not modified, and not kept by the receiver
	client, local netip.AddrPort
	proto         Proto
	arrived       time.Time // zero means now
	tried         *UpstreamResult
}

// took returns the time since the query arrived, or a negative value if the arrival time is
// unknown.
func (x *exchange) took() time.Duration {
	if x.arrived.IsZero() {
		return -1
	}
	return max(0, time.Since(x.arrived))
}
