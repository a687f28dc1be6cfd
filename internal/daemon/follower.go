package daemon

import (
	"time"

	"github.com/node-dns/node-dns/internal/dnsmasqconf"
	"github.com/node-dns/node-dns/internal/hostdns"
	"github.com/node-dns/node-dns/internal/netstate"
	"github.com/node-dns/node-dns/internal/nodeconfig"
	"github.com/node-dns/node-dns/internal/sys/journal"
)

// follower looks at the host, and changes what is served. One goroutine alone holds it: that of start, and then that of follow.
type follower struct {
	*Daemon

	lastCapture hostdns.Capture // the last good one
	lastNet     netstate.State  // likewise
	agreed      agreed
	dnsmasq     *dnsmasqconf.Reader
	request     hostdns.Requester
	next        time.Time // no look begins before it

	answers     bool              // at the last look, at the address that resolv.conf is to name
	wayBackTill time.Time         // until when the stamp of the way back is asked for; zero: it has not been missing
	unready     string            // why the ready file could not be written; "": it was
	unkept      string            // why what was set over D-Bus is not kept; "": it is
	memoryWhy   string            // why the memory limit is not known, as the log says; "": it is
	saidReady   journal.Condition // Ready or NotReady, as the log says; 0: it does not yet
}

func newFollower(d *Daemon) *follower {
	return &follower{
		Daemon: d, dnsmasq: dnsmasqconf.NewReader(dnsmasqconf.DefaultPaths(d.config.Root)), request: hostdns.Requester{Path: d.paths.host.Request},
	}
}

// agreed holds a change of the configuration back until two looks agree on it. The zero value is ready.
type agreed struct {
	config  nodeconfig.Config // at the last look
	dnsmasq dnsmasqconf.Config
}

const (
	// settle is how long hints are gathered: a renewal is a dozen events within milliseconds, a carrier flap more.
	settle = 50 * time.Millisecond
	// listenAgain is how soon an address that could not be bound is tried again.
	listenAgain = time.Second
	// missedAgain is how soon a NetworkManager that has missed a deadline is asked again.
	missedAgain = time.Second
)

// Reasons of looks that nothing hinted at.
const (
	lookForStatus = "status"
	lookAgainSoon = "again"
	lookAtTime    = "time"
)
