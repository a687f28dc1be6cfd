// Package metrics exports the daemon's counters to Prometheus and serves health and readiness
// checks.
//
// It counts nothing itself. The other parts count while they work, and their counters are read on
// each scrape (a const metric of prometheus/client_golang is a value with a name). It is separate
// from control because its clients are machines that may connect over the network. It therefore
// exports numbers, but no queried names and no paths.
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

// Sample holds all exported values from about the same moment. The parts are read one after the
// other.
type Sample struct {
	Status   control.Status
	Revision string // revision of the sampled process, as in control.Versions
	Traffic  []dnsserver.Traffic
	Server   dnsserver.Stats
	Cache    cache.Stats
	Forward  forward.Stats
	Routes   []forward.RouteStatus
	Config   Config

	Events         map[string]uint64 // NetworkManager events on D-Bus, by a fixed set of words
	Requests       map[string]uint64 // requests to write the host's files, by reason
	SearchNXDomain uint64            // nonexistent names below the cluster domain, most of which come from search lists
	Health         Health
	Troubled       []TroubledClient // limited by the part that records them
	Programming    Programming
	APIRequests    map[APIRequest]uint64 // requests to the Kubernetes API; limited by the part that counts
}

// TroubledClient is a client with slow or failed answers recently.
type TroubledClient struct {
	Client       string // address
	Pod          string // NAMESPACE/NAME; empty if unknown
	Slow, Failed float64
}

// APIRequest is a kind of request to the Kubernetes API. The API server cannot make these strings
// longer.
type APIRequest struct{ Code, Method, Host string }

// Config describes when and how the configuration files took effect.
type Config struct {
	Taken  time.Time // when a configuration last took effect
	Good   bool      // whether the current files are in effect
	Failed uint64    // number of times that an error prevented it
}

// Programming measures how long changes of the cluster took until they were answered: the DNS
// programming latency of Kubernetes.
type Programming struct {
	Headless           percpu.Delays // headless Services with a selector
	ClusterIP          percpu.Delays // all others
	Future, Past, Many uint64        // changes that were not timed because they were in the future, too old, or too many
}

// Health describes the watchdog, which checks whether our own listeners read and finish queries.
type Health struct {
	Durations percpu.Durations
	Failures  uint64
}

const (
	// maxClients limits the open connections, and maxScrapes the concurrent scrapes. Further
	// connections wait, and further scrapes get 503.
	maxClients = 32
	maxScrapes = 4
	// idle is the timeout for an idle connection. 32 idle connections must not block a scraper for
	// long.
	idle = 10 * time.Second
)

// Source provides the exported values.
type Source struct {
	Sample func() Sample
	// Status returns the part that /ready needs. It must not inspect the host, because any process
	// on the node may call it.
	Status func() control.Status
	// Panicked is called with the value of a panic in these functions. The client gets an error.
	Panicked func(value any)
	Log      *slog.Logger // logs samples that could not be exported completely
}

// Handler serves /metrics with names in the namespace, /health and /ready, and nothing else.
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
	_, _ = io.WriteString(w, text) // fails if the client has disconnected
}

type complaints struct{ log *slog.Logger }

func (c complaints) Println(words ...any) { c.log.Error("metrics", "error", fmt.Sprint(words...)) }

// Serve answers on listener until ctx ends, and closes it. Pending requests get one second to
// finish.
func Serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 2 * time.Second,
		ReadTimeout:       2 * time.Second,
		WriteTimeout:      10 * time.Second,
		IdleTimeout:       idle,
		MaxHeaderBytes:    8 << 10,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ErrorLog:          slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug), // errors of clients are not logged
	}
	if err := control.ServeUntil(ctx, netutil.LimitListener(listener, maxClients), server); err != nil {
		return fmt.Errorf("serving metrics: %w", err)
	}
	return nil
}
