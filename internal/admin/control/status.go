package control

import "time"

// Status is what the daemon says of itself, whole: one struct for the text and for JSON.
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
	Metrics    Metrics    `json:"metrics"`
	Clients    Clients    `json:"clients"`
	Cluster    Cluster    `json:"cluster"`
	Routes     []Route    `json:"routes"`               // the root route's servers are the upstreams
	Overridden []Loss     `json:"overridden,omitempty"` // what else is said of where names are asked, and does not count
	Refused    []Refused  `json:"refused,omitempty"`    // nameservers that somebody names, and that are not asked
	Bus        *Bus       `json:"dbus,omitempty"`       // nil: we are not on the bus by our configuration
	ResolvConf ResolvConf `json:"resolvConf"`
	Cache      Cache      `json:"cache"`
	Queries    Queries    `json:"queries"`
	Watched    Watched    `json:"watched"`
	Process    Process    `json:"process"`
	SELinux    *SELinux   `json:"selinux,omitempty"` // nil: SELinux is off
	Problems   []string   `json:"problems"`          // what an admin should mend; empty: all is well
	Notes      []string   `json:"notes"`             // what an admin should know
	Hidden     []string   `json:"hidden,omitempty"`  // what this caller may not see; empty: nothing

	LastMinute *LastMinute `json:"lastMinute,omitempty"` // nil: it runs for less than ten seconds
	SlowNames  []SlowName  `json:"slowNames,omitempty"`  // of the last ten minutes, the worst first; for admins alone
	// Changed is when Routes were others; nil: not in our memory.
	Changed *RouteChanged `json:"routesChanged,omitempty"`
}

// Watched says who sees the queries.
type Watched struct {
	Monitors   int  `json:"monitors"`   // each is a `node-dns monitor`
	LogQueries bool `json:"logQueries"` // they are written to the journal
}

// Process is what the daemon takes of its machine.
type Process struct {
	Goroutines  int   `json:"goroutines"`
	Heap        int64 `json:"heap"`        // octets in use when memory was last collected
	MemoryLimit int64 `json:"memoryLimit"` // octets that Go takes at most, and the cache shrinks before; 0: no limit
}

// SELinux says how SELinux confines the daemon.
type SELinux struct {
	Mode   string `json:"mode"`             // enforcing or permissive; on: the daemon may not read which
	Domain string `json:"domain,omitempty"` // of the daemon, such as node_dns_t; "": not known
}

// Node is this machine as the daemon sees it.
type Node struct {
	Name string `json:"name"`
	IP   string `json:"ip"` // "": no address is known yet
}

// Listener is one address that the daemon listens on, or would.
type Listener struct {
	Address string `json:"address"`
	UDP     bool   `json:"udp"`
	TCP     bool   `json:"tcp"`
	Error   string `json:"error,omitempty"`
	// Spare: dnsBindAddress alone names it, and another program has it, such as OpenShift's own nameserver. That is no fault.
	Spare bool `json:"spare,omitempty"`
}

// IsFailed reports whether the daemon does not listen where it should.
func (l Listener) IsFailed() bool { return l.Error != "" && !l.Spare }

// Clients are who may ask, beside this host.
type Clients struct {
	AllowFrom []string `json:"allowFrom"`           // as in the configuration
	Networks  []string `json:"networks"`            // what that comes to; empty: everyone, or nobody
	RateLimit int      `json:"rateLimit,omitempty"` // queries a second of one client; 0: no limit
}

// Route is one domain and the servers that its queries go to.
type Route struct {
	Domain  string   `json:"domain"`
	Local   bool     `json:"local,omitempty"` // its names are asked of nobody: they do not exist
	Source  string   `json:"source"`
	Rank    string   `json:"rank,omitempty"` // the source's name in the table of precedence
	Servers []Server `json:"servers"`
}

// Loss is what somebody says of a domain without effect.
type Loss struct {
	Domain  string   `json:"domain"`
	Local   bool     `json:"local,omitempty"` // he says that its names do not exist
	Servers []string `json:"servers"`
	Source  string   `json:"source"`
	Rank    string   `json:"rank"`
	By      string   `json:"by,omitempty"` // the source that won; "": it would not count without one either
	Why     string   `json:"why"`
}

// Refused is a nameserver that must not be asked.
type Refused struct {
	Domain string `json:"domain,omitempty"` // "": not known
	Server string `json:"server"`           // or the text that is none
	Source string `json:"source"`
	Why    string `json:"why"`
}

// Bus is how we are on the system bus, and what was set over it.
type Bus struct {
	Error     string    `json:"error,omitempty"` // why there is no connection; "": there is one
	Names     []BusName `json:"names"`
	Servers   []string  `json:"servers"`             // as SetDomainServers takes them
	ServersBy string    `json:"serversBy,omitempty"` // who set them
	Options   []string  `json:"options"`             // dnsmasq's names of those that are on
	OptionsBy string    `json:"optionsBy,omitempty"`
}

// BusName is a name on the bus.
type BusName struct {
	Name  string `json:"name"`
	Owned bool   `json:"owned"`
	Why   string `json:"why,omitempty"` // it is not
}

// Server is one upstream nameserver with its health.
type Server struct {
	Address  string        `json:"address"`
	State    string        `json:"state"` // up, down, unknown
	Since    time.Time     `json:"since,omitzero"`
	RTT      time.Duration `json:"rttNanoseconds"` // smoothed; 0: not measured
	Queries  uint64        `json:"queries"`
	Failures uint64        `json:"failures"`
	Refusals uint64        `json:"refusals"` // responses that are no answer
	NXDomain uint64        `json:"nxdomain"`
	Retries  uint64        `json:"retries"`
	// For names of this route alone; the numbers above are of all routes, and of checks.
	RouteQueries  uint64 `json:"routeQueries"`
	RouteFailures uint64 `json:"routeFailures"`   // of these: without an answer
	Error         string `json:"error,omitempty"` // the last failure
	// Transport is what a plain server is asked over now, where dnsOverTLS is opportunistic: udp or tls (opportunistic).
	Transport string `json:"transport,omitempty"`
	// UDPSize is the size in octets that the server's responses over UDP are limited to, because
	// larger ones were lost. 0: none was.
	UDPSize uint16 `json:"udpSize,omitempty"`
}

// ResolvConf says whose /etc/resolv.conf is, and what is still to be done to the host's files.
type ResolvConf struct {
	Path        string   `json:"path"`
	Ours        bool     `json:"ours"`
	Owner       string   `json:"owner,omitempty"` // who says in it that he wrote it
	Nameservers []string `json:"nameservers"`
	Search      []string `json:"search"`
	Original    string   `json:"original,omitempty"` // where the displaced file is kept; "": none is
	DropIn      string   `json:"dropIn,omitempty"`   // the file by which systemd-resolved asks this node; "": it does not
	Pending     []string `json:"pending"`            // files that are not what they should be
	Hold        string   `json:"hold,omitempty"`     // why resolv.conf is left alone; of one that is ours, all but its nameserver
}

// Cache are the cache's numbers since the start.
type Cache struct {
	Entries    int    `json:"entries"`
	Size       int    `json:"size"`
	Hits       uint64 `json:"hits"`
	Misses     uint64 `json:"misses"`
	Insertions uint64 `json:"insertions"`
	Evictions  uint64 `json:"evictions"`
}

// Queries are the listeners' numbers since the start.
type Queries struct {
	UDP     uint64 `json:"udp"`
	TCP     uint64 `json:"tcp"`
	Shed    uint64 `json:"shed"`    // refused at a bound, whichever
	Dropped uint64 `json:"dropped"` // not a query at all
	Panics  uint64 `json:"panics"`
	Moved   uint64 `json:"moved"` // questions asked over TCP, as too much came over UDP that was no response: somebody may be guessing
	Limits  Limits `json:"limits"`
}

// Limits are how often a bound was met since the start, and a query or a connection not served for it.
type Limits struct {
	Strangers     uint64 `json:"strangers"`     // refused: the client may not ask
	Hasty         uint64 `json:"hasty"`         // refused: clientRateLimit
	Crowding      uint64 `json:"crowding"`      // SERVFAIL: the client has its share of what may wait for an answer
	Costly        uint64 `json:"costly"`        // SERVFAIL: the client has had its share of what upstream nameservers send
	Full          uint64 `json:"full"`          // SERVFAIL: too many queries wait for an answer
	Upstream      uint64 `json:"upstream"`      // SERVFAIL: dnsForwardMax, or no socket to ask from
	Silenced      uint64 `json:"silenced"`      // responses that say no, which were not sent: too many to one network
	TCPRefused    uint64 `json:"tcpRefused"`    // connections closed at once
	TCPIdle       uint64 `json:"tcpIdle"`       // idle connections closed to make room
	NoDescriptors uint64 `json:"noDescriptors"` // connections closed because no file could be opened

	// Crowder is a client that had more than its share, of whichever; "": none had. Pod is its namespace and name, where it is known.
	Crowder    string `json:"crowder,omitempty"`
	CrowderPod string `json:"crowderPod,omitempty"`
	// Stranger is a client that may not ask, and StrangerPod its namespace and name, likewise.
	Stranger    string `json:"stranger,omitempty"`
	StrangerPod string `json:"strangerPod,omitempty"`
}
