package control

import (
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/node-dns/node-dns/internal/sys/termtext"
)

// Status is the full status of the daemon. The text output and the JSON output use this struct.
type Status struct {
	APIVersion string     `json:"apiVersion"`
	Kind       string     `json:"kind"`
	Version    string     `json:"version"`
	PID        int        `json:"pid"`
	Started    time.Time  `json:"started"`
	Now        time.Time  `json:"now"`
	Ready      bool       `json:"ready"`
	Node       Node       `json:"node"`
	Listeners  []Listener `json:"listeners"`
	// LeftTo is the node-dns of the RPM, or of another pod, that serves this node. This one, in a
	// pod, then listens nowhere. It is ready, because the node's DNS is. A rollout thus continues.
	LeftTo  string  `json:"leftTo,omitempty"`
	Metrics Metrics `json:"metrics"`
	Clients Clients `json:"clients"`
	// Interception is nil if the configuration does not ask for it.
	Interception *Interception `json:"interception,omitempty"`
	Cluster      Cluster       `json:"cluster"`
	Routes       []Route       `json:"routes"`               // the servers of the root route are the upstreams
	Overridden   []Loss        `json:"overridden,omitempty"` // routes that other sources configure without effect
	Refused      []Refused     `json:"refused,omitempty"`    // nameservers that are configured but must not be queried
	Bus          *Bus          `json:"dbus,omitempty"`       // nil if the configuration disables D-Bus
	ResolvConf   ResolvConf    `json:"resolvConf"`
	Cache        Cache         `json:"cache"`
	Queries      Queries       `json:"queries"`
	Watched      Watched       `json:"watched"`
	Process      Process       `json:"process"`
	SELinux      *SELinux      `json:"selinux,omitempty"` // nil if SELinux is disabled
	Failing      []string      `json:"failing,omitempty"` // end-to-end questions that fail; the daemon is then not ready
	Problems     []string      `json:"problems"`          // what an admin should fix; empty if there is nothing
	Notes        []string      `json:"notes"`             // what an admin should know
	Hidden       []string      `json:"hidden,omitempty"`  // what this caller may not see

	LastMinute *LastMinute `json:"lastMinute,omitempty"` // nil in the first ten seconds
	SlowNames  []SlowName  `json:"slowNames,omitempty"`  // of the last ten minutes, slowest first; for admins only
	// Changed is the last change of Routes. It is nil if it is not in the history.
	Changed *RouteChanged `json:"routesChanged,omitempty"`
}

// Watched says who can see the queries.
type Watched struct {
	Monitors   int  `json:"monitors"`   // number of running `node-dns monitor` commands
	LogQueries bool `json:"logQueries"` // whether queries are written to the journal
}

// Process is the daemon's resource usage.
type Process struct {
	Goroutines  int   `json:"goroutines"`
	Heap        int64 `json:"heap"`        // bytes in use after the last garbage collection
	MemoryLimit int64 `json:"memoryLimit"` // Go's memory limit in bytes; the cache shrinks before it is reached; 0 means no limit
}

// SELinux says how SELinux confines the daemon.
type SELinux struct {
	Mode   string `json:"mode"`             // enforcing or permissive; "on" if the daemon may not read which
	Domain string `json:"domain,omitempty"` // domain of the daemon, such as node_dns_t; empty if unknown
}

// Node is this machine.
type Node struct {
	Name string `json:"name"`
	IP   string `json:"ip"` // empty while no address is known
}

// Listener is one address that the daemon listens on, or tries to.
type Listener struct {
	Address string `json:"address"`
	UDP     bool   `json:"udp"`
	TCP     bool   `json:"tcp"`
	Error   string `json:"error,omitempty"`
	// Spare is set if only dnsBindAddress names the address and another program, such as
	// OpenShift's own nameserver, uses it. That is not an error.
	Spare bool `json:"spare,omitempty"`
}

// IsFailed reports whether the daemon should listen here but does not.
func (l Listener) IsFailed() bool { return l.Error != "" && !l.Spare }

// Clients are the clients that may send queries, in addition to this host.
type Clients struct {
	AllowFrom []string `json:"allowFrom"`           // as in the configuration
	Networks  []string `json:"networks"`            // resulting networks; empty if all clients have access, or only this host
	RateLimit int      `json:"rateLimit,omitempty"` // queries per second per client; 0 means no limit
}

// Route is one domain and the servers that answer for it.
type Route struct {
	Domain  string   `json:"domain"`
	Local   bool     `json:"local,omitempty"` // no server is queried, and unknown names do not exist
	Source  string   `json:"source"`
	Rank    string   `json:"rank,omitempty"` // name of the source in the table of precedence
	Servers []Server `json:"servers"`
}

// Loss is a setting for a domain that has no effect.
type Loss struct {
	Domain  string   `json:"domain"`
	Local   bool     `json:"local,omitempty"` // the setting says that the domain's names do not exist
	Servers []string `json:"servers"`
	Source  string   `json:"source"`
	Rank    string   `json:"rank"`
	By      string   `json:"by,omitempty"` // source that won; empty if the setting would not count even without it
	Why     string   `json:"why"`
}

// Refused is a nameserver that must not be queried.
type Refused struct {
	Domain string `json:"domain,omitempty"` // empty if unknown
	Server string `json:"server"`           // server, or the string that is not a valid server
	Source string `json:"source"`
	Why    string `json:"why"`
}

// Bus is the state of the connection to the system bus, and what other programs set over it.
type Bus struct {
	Error     string    `json:"error,omitempty"` // reason why there is no connection; empty if there is one
	Names     []BusName `json:"names"`
	Servers   []string  `json:"servers"`             // in SetDomainServers format
	ServersBy string    `json:"serversBy,omitempty"` // program that set them
	Options   []string  `json:"options"`             // dnsmasq's names of the options that are set
	OptionsBy string    `json:"optionsBy,omitempty"`
}

// BusName is a name on the bus.
type BusName struct {
	Name  string `json:"name"`
	Owned bool   `json:"owned"`
	Why   string `json:"why,omitempty"` // reason why it is not owned
}

// Server is one upstream nameserver with its health.
type Server struct {
	Address  string        `json:"address"`
	State    string        `json:"state"` // up, down, unknown
	Since    time.Time     `json:"since,omitzero"`
	RTT      time.Duration `json:"rttNanoseconds"` // smoothed; 0 if not measured
	Queries  uint64        `json:"queries"`
	Failures uint64        `json:"failures"`
	Refusals uint64        `json:"refusals"` // responses that are not answers
	NXDomain uint64        `json:"nxdomain"`
	Retries  uint64        `json:"retries"`
	// Queries for this route's names only. The counters above are for all routes and include health
	// checks.
	RouteQueries  uint64 `json:"routeQueries"`
	RouteFailures uint64 `json:"routeFailures"`   // of these, the ones without an answer
	Error         string `json:"error,omitempty"` // last failure
	// Transport is the transport used for a plain server if dnsOverTLS is opportunistic: udp or tls
	// (opportunistic).
	Transport string `json:"transport,omitempty"`
	// UDPSize is the size in bytes to which the server's responses over UDP are limited, because
	// larger ones were lost. 0 means that none was lost.
	UDPSize uint16 `json:"udpSize,omitempty"`
}

// ResolvConf describes who manages /etc/resolv.conf, and which changes to the host's files are
// pending.
type ResolvConf struct {
	Path        string   `json:"path"`
	Ours        bool     `json:"ours"`
	Owner       string   `json:"owner,omitempty"` // program that the file names as its author
	Nameservers []string `json:"nameservers"`
	Search      []string `json:"search"`
	Original    string   `json:"original,omitempty"` // backup of the replaced file; empty if there is none
	DropIn      string   `json:"dropIn,omitempty"`   // file that makes systemd-resolved query this node; empty if there is none
	Pending     []string `json:"pending"`            // files that differ from their intended content
	Hold        string   `json:"hold,omitempty"`     // reason why resolv.conf is not changed; if the file is ours, only its nameserver is kept up to date
}

// Cache holds the cache's counters since the start.
type Cache struct {
	Entries    int    `json:"entries"`
	Size       int    `json:"size"`
	Hits       uint64 `json:"hits"`
	Misses     uint64 `json:"misses"`
	Insertions uint64 `json:"insertions"`
	Evictions  uint64 `json:"evictions"`
}

// Queries holds the listeners' counters since the start.
type Queries struct {
	UDP     uint64 `json:"udp"`
	TCP     uint64 `json:"tcp"`
	Shed    uint64 `json:"shed"`    // refused at any limit
	Dropped uint64 `json:"dropped"` // messages that are not queries
	Panics  uint64 `json:"panics"`
	Moved   uint64 `json:"moved"` // questions moved to TCP because too many unrelated packets arrived over UDP, a sign of a spoofing attempt
	Limits  Limits `json:"limits"`
}

// Limits counts, since the start, how often a limit prevented a query or a connection from being
// served.
type Limits struct {
	Strangers     uint64 `json:"strangers"`     // REFUSED: the client has no access
	Hasty         uint64 `json:"hasty"`         // REFUSED: clientRateLimit
	Crowding      uint64 `json:"crowding"`      // SERVFAIL: the client has too many queries waiting for an answer
	Costly        uint64 `json:"costly"`        // SERVFAIL: the client used up its share of upstream traffic
	Full          uint64 `json:"full"`          // SERVFAIL: too many queries of all clients wait for an answer
	Upstream      uint64 `json:"upstream"`      // SERVFAIL: dnsForwardMax reached, or no free socket for the query
	Silenced      uint64 `json:"silenced"`      // refusals over UDP above the limit for one network; most were not sent
	TCPRefused    uint64 `json:"tcpRefused"`    // connections that were closed at once
	TCPIdle       uint64 `json:"tcpIdle"`       // idle connections closed to make room
	NoDescriptors uint64 `json:"noDescriptors"` // connections closed because no file descriptor was free

	// Crowder is a client that exceeded one of its shares. It is empty if there was none.
	// CrowderPod is its namespace and name, if known.
	Crowder    string `json:"crowder,omitempty"`
	CrowderPod string `json:"crowderPod,omitempty"`
	// Stranger is a client that is not allowed to send queries. StrangerPod is its namespace and
	// name, if known.
	Stranger    string `json:"stranger,omitempty"`
	StrangerPod string `json:"strangerPod,omitempty"`
}

// Values of Brief.State.
const (
	BriefReady    = "ready"
	BriefDegraded = "degraded"
	BriefNotReady = "not ready"
)

// Brief is the status in one line.
type Brief struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`    // StatusBrief
	State      string   `json:"state"`   // ready, degraded, not ready
	Reasons    []string `json:"reasons"` // empty if State is ready
}

// Brief summarizes the status: ready, or the reasons why not.
func (s Status) Brief() Brief {
	b := Brief{APIVersion: APIVersion, Kind: "StatusBrief", State: BriefReady, Reasons: []string{}}
	for _, route := range s.Routes {
		for _, server := range route.Servers {
			switch {
			case server.State != "down":
			case route.Domain == ".":
				b.Reasons = append(b.Reasons, "upstream "+server.Address+" down")
			default:
				b.Reasons = append(b.Reasons, server.Address+" for "+route.Domain+" down")
			}
		}
	}
	down := s.DownServers()
	for _, problem := range s.Problems {
		if !slices.Contains(down, problem) {
			first, _, _ := strings.Cut(problem, "\n")
			b.Reasons = append(b.Reasons, first)
		}
	}
	switch {
	case !s.Ready:
		b.State = BriefNotReady
		if len(b.Reasons) == 0 {
			b.Reasons = append(b.Reasons, "it is starting")
		}
	case len(b.Reasons) > 0:
		b.State = BriefDegraded
	}
	return b
}

// WriteText prints one line.
func (b Brief) WriteText(w io.Writer) error {
	text := b.State
	if len(b.Reasons) > 0 {
		text += ": " + strings.Join(b.Reasons, "; ")
	}
	_, err := fmt.Fprintln(w, termtext.Escape(text))
	return err
}

// Metrics says where the daemon serves its Prometheus metrics.
type Metrics struct {
	Address string `json:"address"` // empty if they are disabled
	Error   string `json:"error,omitempty"`
}

func (m Metrics) text() string {
	switch {
	case m.Address == "":
		return ""
	case m.Error != "":
		return "metrics " + m.Address + " FAILED (" + m.Error + ")"
	}
	return "metrics " + m.Address
}

// IsOpen reports whether other hosts can reach the metrics.
func (m Metrics) IsOpen() bool {
	at, err := netip.ParseAddrPort(m.Address)
	return err == nil && !at.Addr().Unmap().IsLoopback()
}

// Unready returns the reasons why the daemon is not ready: an address is not bound, there is no
// upstream server, Cilium must not redirect queries yet, or an end-to-end question fails. It is
// empty if the daemon is ready, or if another one serves the node.
func (s Status) Unready() []string {
	if s.LeftTo != "" {
		return nil
	}
	var reasons []string
	switch {
	case slices.ContainsFunc(s.Listeners, func(l Listener) bool { return !l.Spare }):
	case s.Cluster.Domain == "":
		reasons = append(reasons, "not listening because the cluster domain is unknown")
	default:
		reasons = append(reasons, "not listening because this node has no address yet")
	}
	for _, l := range s.Listeners {
		if l.IsFailed() {
			reasons = append(reasons, "not listening on "+l.Address+": "+l.Error)
		}
	}
	if !slices.ContainsFunc(s.Routes, func(r Route) bool { return r.Domain == "." }) {
		reasons = append(reasons, "no upstream nameserver is known")
	}
	if i := s.Interception; i != nil && i.Cilium && i.Why != "" { // Cilium would bring queries that fail here
		reasons = append(reasons, i.Why)
	}
	return append(reasons, s.Failing...)
}
