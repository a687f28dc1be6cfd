// Package metrics shows the daemon's numbers to Prometheus, and to whoever asks whether it lives and is ready.
//
// It counts nothing: the parts count in the course of their work, and their counters are read when somebody asks (a const metric
// of prometheus/client_golang is a value with a name). It is apart from control because who reads it is a machine that may reach
// it over the network, so that it says numbers, and no names that were asked for, no clients, and no paths.
package metrics

import (
	"time"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/dns/cache"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/forward"
	"github.com/node-dns/node-dns/internal/sys/percpu"
)

// Sample is all that is shown, as it was at one moment, or nearly so: the parts are read one after the other.
type Sample struct {
	Status   control.Status
	Revision string // control.Versions' of the process that is sampled
	Traffic  []dnsserver.Traffic
	Server   dnsserver.Stats
	Cache    cache.Stats
	Forward  forward.Stats
	Routes   []forward.RouteStatus
	Config   Config

	Events         map[string]uint64 // of NetworkManager on D-Bus; the keys are a few words of ours
	Requests       map[string]uint64 // for the host's files to be written, by why
	SearchNXDomain uint64            // names below the cluster's domain that do not exist: most are a search list's
	Health         Health
	Programming    Programming
	APIRequests    map[APIRequest]uint64 // to the Kubernetes API; bounded by who counts
}

// APIRequest is what requests to the Kubernetes API are told apart by. Each is a word that the API server cannot make longer.
type APIRequest struct{ Code, Method, Host string }

// Config is how the configuration files came to be in force.
type Config struct {
	Taken  time.Time // when they were taken over last
	Good   bool      // what they say now is in force
	Failed uint64    // how often it was not, for a fault
}

// Programming is how long changes of the cluster took until they were answered: Kubernetes' DNS programming latency.
type Programming struct {
	Headless           percpu.Delays // of headless Services with a selector
	ClusterIP          percpu.Delays // of others
	Future, Past, Many uint64        // changes that were not timed, as they were to come, too long ago, or too many
}

// Health is the watchdog's: it asks our own listeners as a client does.
type Health struct {
	Durations percpu.Durations
	Failures  uint64
}
