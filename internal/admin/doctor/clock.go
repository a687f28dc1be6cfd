package doctor

import (
	"time"

	"github.com/node-dns/node-dns/internal/admin/migrate"
)

// slack is how much earlier than this program was built, or installed, a clock may be: another machine's may have been ahead.
const slack = 24 * time.Hour

// synchronisers are what keeps the time of a node.
var synchronisers = []string{
	"chronyd.service", "chrony.service", "ntpd.service", "ntp.service", "ntpsec.service", "systemd-timesyncd.service",
	"ptp4l.service", "phc2sys.service", "timemaster.service",
}

// synchroniser is the unit that runs of these; "": none does, or it is not known.
func synchroniser(units map[string]migrate.Unit) string {
	for _, name := range synchronisers {
		if units[name].IsActive() {
			return name
		}
	}
	return ""
}

// checkClock judges the node's time: TLS to the API, and DNS over TLS, fail with a wrong one.
func checkClock(s Snapshot) []Finding {
	const fix = "systemctl enable --now chronyd, which sets it, and needs an NTP server that it reaches"
	c, by := s.Clock, synchroniser(s.Units)
	switch {
	case !c.BuiltAt.IsZero() && s.Now.Before(c.BuiltAt.Add(-slack)):
		return []Finding{fail("the clock says "+date(s.Now)+", and this program was built later, at "+date(c.BuiltAt)+": TLS fails", fix)}
	case c.Known && c.Unsynced && by == "":
		return []Finding{warn("the clock ("+date(s.Now)+") is not synchronised, and nothing is known to run that does", fix)}
	case c.Known && c.Unsynced:
		return []Finding{warn("the clock ("+date(s.Now)+") is not synchronised, though "+by+" runs", "chronyc tracking, or timedatectl, says why")}
	case c.Known:
		return fine("the clock is synchronised (%s)", date(s.Now))
	}
	return fine("the clock says %s", date(s.Now))
}
