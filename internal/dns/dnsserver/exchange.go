package dnsserver

import (
	"net/netip"
	"time"
)

// exchange is one received message on its way to a response.
type exchange struct {
	wire          []byte // as received; not changed, and not kept by the receiver
	client, local netip.AddrPort
	proto         Proto
	arrived       time.Time // zero: now
	tried         *UpstreamResult
}

// took is how long a query has taken; less than 0: it is not known when it came.
func (x *exchange) took() time.Duration {
	if x.arrived.IsZero() {
		return -1
	}
	return max(0, time.Since(x.arrived))
}
