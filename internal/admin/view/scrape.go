package view

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
	"github.com/node-dns/node-dns/internal/sys/stats"
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
	Config   ConfigSample

	Events         map[string]uint64 // NetworkManager events on D-Bus, by a fixed set of words
	Requests       map[string]uint64 // requests to write the host's files, by reason
	SearchNXDomain uint64            // nonexistent names below the cluster domain, most of which come from search lists
	Health         HealthSample
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

// ConfigSample describes when and how the configuration files took effect.
type ConfigSample struct {
	Taken  time.Time // when a configuration last took effect
	Fault  string    // why the current files are not in effect; empty if they are
	Failed uint64    // number of times that an error prevented it
}

// Programming measures how long changes of the cluster took until they were answered: the DNS
// programming latency of Kubernetes.
type Programming struct {
	Headless           stats.Delays // headless Services with a selector
	ClusterIP          stats.Delays // all others
	Future, Past, Many uint64       // changes that were not timed because they were in the future, too old, or too many
}

// HealthSample describes the watchdog, which checks whether our own listeners read and finish
// queries.
type HealthSample struct {
	Durations stats.Durations
	Failures  uint64
}

const (
	// maxScrapers limits the open connections, and maxScrapes the concurrent scrapes. Further
	// connections wait, and further scrapes get 503.
	maxScrapers = 32
	maxScrapes  = 4
	// scraperIdle is the timeout for an idle connection. 32 idle connections must not block a
	// scraper for long.
	scraperIdle = 10 * time.Second
)

// MetricsSource provides the exported values.
type MetricsSource struct {
	Sample func() Sample
	// Status returns the part that /ready needs. It must not inspect the host, because any process
	// on the node may call it.
	Status func() control.Status
	// Panicked is called with the value of a panic in these functions. The client gets an error.
	Panicked func(value any)
	Log      *slog.Logger // logs samples that could not be exported completely
}

// MetricsHandler serves /metrics with names in the namespace, /health and /ready, and nothing else.
func MetricsHandler(namespace string, source MetricsSource) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(newRegistry(namespace, source), promhttp.HandlerOpts{
		ErrorLog:            complaints{source.Log},
		ErrorHandling:       promhttp.HTTPErrorOnError,
		MaxRequestsInFlight: maxScrapes,
		EnableOpenMetrics:   true,
	}))
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, "OK\n") })
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) {
		status := source.Status()
		if status.Ready {
			reply(w, http.StatusOK, "OK\n")
			return
		}
		reply(w, http.StatusServiceUnavailable, strings.Join(status.Unready(), "\n")+"\n")
	})
	return control.Guard(mux, source.Panicked)
}

func reply(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, text) // fails if the client has disconnected
}

type complaints struct{ log *slog.Logger }

func (c complaints) Println(words ...any) { c.log.Error("metrics", "error", fmt.Sprint(words...)) }

// serveUntil answers on listener until ctx ends, and closes it. Pending requests get one second to
// finish.
func serveUntil(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 2 * time.Second,
		ReadTimeout:       2 * time.Second,
		WriteTimeout:      10 * time.Second,
		IdleTimeout:       scraperIdle,
		MaxHeaderBytes:    8 << 10,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ErrorLog:          slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug), // errors of clients are not logged
	}
	if err := control.ServeUntil(ctx, netutil.LimitListener(listener, maxScrapers), server); err != nil {
		return fmt.Errorf("serving metrics: %w", err)
	}
	return nil
}
