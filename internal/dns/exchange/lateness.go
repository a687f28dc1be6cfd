package exchange

import "time"

// lateness is how often, recently, another server answered during the wait for this one, in units
// of 1/1024. Each such event counts a quarter, and each timely response an eighth. A server that is
// often late is demoted and gets probes until it keeps up again. A server that loses three packets
// of ten gets to 460.
type lateness int32

const (
	alwaysLate = 1024
	oftenLate  = 512 // three times in a row, but not once or twice
	mostlyLate = 720
)

// keepsUp lowers the lateness if the answer came within the wait for the server, limited to least
// and most. It reports whether it did.
func (h *health) keepsUp(took, least, most time.Duration) bool {
	isInTime := took <= max(min(h.wait(), most), least)
	if isInTime {
		h.lateness = h.lateness.met()
	}
	return isInTime
}

// down is the rank of a server that is down.
const down = 3

func (l lateness) missed() lateness { return l + (alwaysLate-l)/4 }
func (l lateness) met() lateness    { return l - (l+7)/8 }

// rank returns the rank of the server. Servers with a lower rank are queried first, whatever their
// configured order.
func (h *health) rank() int {
	switch {
	case h.state == Down:
		return down
	case h.lateness >= mostlyLate:
		return 2
	case h.lateness >= oftenLate:
		return 1
	}
	return 0
}

// late records that another server answered first.
func (h *health) late(now time.Time) {
	before := h.rank()
	if h.lateness = h.lateness.missed(); before == 0 && h.rank() > 0 {
		h.nextProbe = now.Add(betweenProbes)
	}
}

// unmeasured is the wait for a server that has not responded yet.
const unmeasured = 25 * time.Millisecond

// wait returns how long to wait for the server before the next one is queried as well: longer than
// nearly all its responses take.
func (h *health) wait() time.Duration {
	if h.rtt == 0 {
		return unmeasured
	}
	return 2*h.rtt + 4*h.rttVar
}
