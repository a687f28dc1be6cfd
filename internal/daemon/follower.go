package daemon

import (
	"time"

	"github.com/node-dns/node-dns/internal/dnsmasqconf"
	"github.com/node-dns/node-dns/internal/hostdns"
	"github.com/node-dns/node-dns/internal/netstate"
	"github.com/node-dns/node-dns/internal/nodeconfig"
	"github.com/node-dns/node-dns/internal/sys/journal"
)

// follower looks at the host and changes what is served. Only one goroutine uses it at a time:
// first that of start, then that of follow.
type follower struct {
	*Daemon

	lastCapture hostdns.Capture // last good one
	lastNet     netstate.State  // last good one
	agreed      agreed
	dnsmasq     *dnsmasqconf.Reader
	request     hostdns.Requester
	next        time.Time // earliest time of the next look

	answers     bool              // whether the daemon answered, at the last look, at the address for resolv.conf
	wayBackTill time.Time         // end of asking for the way-back stamp; zero if it has not been missing
	unready     string            // why the ready file could not be written; empty if it was
	unasked     string            // why interception could not be requested; empty if it was, or is not wanted
	unkept      string            // why settings made over D-Bus are not saved; empty if they are
	memoryWhy   string            // logged reason why the memory limit is unknown; empty if it is known
	saidReady   journal.Condition // Ready or NotReady, as last logged; 0 before the first log line
}

func newFollower(d *Daemon) *follower {
	return &follower{
		Daemon: d, dnsmasq: dnsmasqconf.NewReader(dnsmasqconf.DefaultPaths(d.config.Root)), request: hostdns.Requester{Path: d.paths.host.Request},
	}
}

// agreed delays a configuration change until two looks agree on it. The zero value is ready to use.
type agreed struct {
	config  nodeconfig.Config // at the last look
	dnsmasq dnsmasqconf.Config
}

const (
	// settle is how long hints are collected. A renewal causes a dozen events within milliseconds,
	// a carrier flap more.
	settle = 50 * time.Millisecond
	// listenAgain is the delay until an address that could not be bound is tried again.
	listenAgain = time.Second
	// missedAgain is the delay until NetworkManager is queried again after a timeout.
	missedAgain = time.Second
)

// Reasons of looks without a hint.
const (
	lookForStatus = "status"
	lookAgainSoon = "again"
	lookAtTime    = "time"
)
