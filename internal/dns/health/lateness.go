package health

import "time"

// lateness is how often, recently, another server had the answer while this one was waited for, in
// parts of 1024. Each time counts a quarter, and each response that came counts an eighth. A server
// that is often late is asked behind the others, and by probes, until it keeps up with them again.
// A server that loses three packets of ten gets to 460.
type lateness int32

const (
	alwaysLate = 1024
	oftenLate  = 512 // not once, nor twice: three times in a row
	mostlyLate = 720
)

// keepsUp improves the lateness if the answer came within the wait for the server, bounded by least and most. It reports whether it did.
func (h *health) keepsUp(took, least, most time.Duration) bool {
	isInTime := took <= max(min(h.wait(), most), least)
	if isInTime {
		h.lateness = h.lateness.met()
	}
	return isInTime
}

// down is the rank of a server that is.
const down = 3

func (l lateness) missed() lateness { return l + (alwaysLate-l)/4 }
func (l lateness) met() lateness    { return l - (l+7)/8 }

// rank says where a server stands: one of a lower rank is asked before it, however they were configured.
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

// late notes that another server had the answer first.
func (h *health) late(now time.Time) {
	before := h.rank()
	if h.lateness = h.lateness.missed(); before == 0 && h.rank() > 0 {
		h.nextProbe = now.Add(betweenProbes)
	}
}

// unmeasured is how long a server is waited for that has not responded yet.
const unmeasured = 25 * time.Millisecond

// wait is how long the server is waited for before the next one is asked as well: until a response is later than nearly all
// are.
func (h *health) wait() time.Duration {
	if h.rtt == 0 {
		return unmeasured
	}
	return 2*h.rtt + 4*h.rttVar
}
