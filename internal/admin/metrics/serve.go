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
)

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
