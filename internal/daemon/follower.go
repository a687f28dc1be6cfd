package daemon

import (
	"time"

	"github.com/node-dns/node-dns/internal/dnsmasqconf"
	"github.com/node-dns/node-dns/internal/hostdns"
	"github.com/node-dns/node-dns/internal/netstate"
	"github.com/node-dns/node-dns/internal/nodeconfig"
	"github.com/node-dns/node-dns/internal/policy"
	"github.com/node-dns/node-dns/internal/sys/journal"
)

// follower looks at the host and changes what is served. Only one goroutine uses it at a time:
// first that of start, then that of follow.
type follower struct {
	*Daemon

	lastCapture hostdns.Capture   // last good one
	lastNet     netstate.State    // last good one
	lastDNS     policy.DNSService // last one with a ready pod, while its Service exists
	dnsmasq     *dnsmasqconf.Reader
	request     hostdns.Requester

	agreedConfig  agreed[nodeconfig.Config]
	agreedDnsmasq agreed[dnsmasqconf.Config]

	next time.Time // earliest time of the next look

	unready   string            // why the ready file could not be written; empty if it was
	unasked   string            // why interception could not be requested; empty if it was, or is not wanted
	unkept    string            // why settings made over D-Bus are not saved; empty if they are
	memoryWhy string            // logged reason why the memory limit is unknown; empty if it is known
	saidReady journal.Condition // Ready or NotReady, as last logged; 0 before the first log line
}

func newFollower(d *Daemon) *follower {
	return &follower{
		Daemon: d, dnsmasq: dnsmasqconf.NewReader(dnsmasqconf.DefaultPaths(d.config.Root)), request: hostdns.Requester{Path: d.paths.host.Request, Invocation: d.config.Invocation},
	}
}
