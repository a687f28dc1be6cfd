// Package metrics shows the daemon's numbers to Prometheus, and to whoever asks whether it lives and is ready.
//
// It counts nothing: the parts count in the course of their work, and their counters are read when somebody asks (a const metric
// of prometheus/client_golang is a value with a name). It is apart from control because who reads it is a machine that may reach
// it over the network, so that it says numbers, and no names that were asked for and no paths.
package metrics

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/net/netutil"

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
	Troubled       []TroubledClient // bounded by who records them
	Programming    Programming
	APIRequests    map[APIRequest]uint64 // to the Kubernetes API; bounded by who counts
}

// TroubledClient is a client that has had slow or failed answers recently.
type TroubledClient struct {
	Client       string // an address
	Pod          string // NAMESPACE/NAME; "": not known
	Slow, Failed float64
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

const (
	// maxClients may be connected at a time, and maxScrapes of them scrape; the next ones wait, or get 503.
	maxClients = 32
	maxScrapes = 4
	// idle is how long a connection is kept that asks nothing: 32 that stay must not keep a scraper out for long.
	idle = 10 * time.Second
)

// Source is what is shown.
type Source struct {
	Sample func() Sample
	// Status is the part of it that /ready needs. It must not have the host looked at: whoever runs on the node may ask.
	Status func() control.Status
	// Panicked hears what these panicked with; who asked is told that there was an error.
	Panicked func(value any)
	Log      *slog.Logger // hears of samples that could not be shown whole
}

// Handler answers /metrics with names that begin with the namespace, /health and /ready, and nothing else.
func Handler(namespace string, source Source) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(newRegistry(namespace, source), promhttp.HandlerOpts{
		ErrorLog:            complaints{source.Log},
		ErrorHandling:       promhttp.HTTPErrorOnError,
		MaxRequestsInFlight: maxScrapes,
		EnableOpenMetrics:   true,
	}))
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, "OK\n") })
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) {
		status := source.Status()
		if status.Ready {
			say(w, http.StatusOK, "OK\n")
			return
		}
		say(w, http.StatusServiceUnavailable, strings.Join(status.Unready(), "\n")+"\n")
	})
	return control.Guard(mux, source.Panicked)
}

func say(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, text) // who has gone does not need it
}

type complaints struct{ log *slog.Logger }

func (c complaints) Println(words ...any) { c.log.Error("metrics", "error", fmt.Sprint(words...)) }

// Serve answers on listener until ctx ends, and closes it. Requests under way get a second to end.
func Serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 2 * time.Second,
		ReadTimeout:       2 * time.Second,
		WriteTimeout:      10 * time.Second,
		IdleTimeout:       idle,
		MaxHeaderBytes:    8 << 10,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ErrorLog:          slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug), // clients' faults are theirs
	}
	if err := control.ServeUntil(ctx, netutil.LimitListener(listener, maxClients), server); err != nil {
		return fmt.Errorf("serving metrics: %w", err)
	}
	return nil
}
