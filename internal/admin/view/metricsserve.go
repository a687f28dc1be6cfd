package view

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/nodeconfig"
	"github.com/node-dns/node-dns/internal/sys/journal"
	"github.com/node-dns/node-dns/internal/sys/supervise"
)

// metricsAgain is the delay before an address that could not be bound is tried again.
const metricsAgain = 2 * time.Second

// Rewant makes ServeMetrics apply the current configuration. It never blocks.
func (m *Metrics) Rewant() { supervise.Wake(m.changed) }

// ServeMetrics serves the metrics at the configured address until ctx ends. If another program uses
// the port, it keeps trying, while DNS is served without metrics.
func (v *View) ServeMetrics(ctx context.Context) error {
	s := shownMetrics{v: v}
	defer s.close()
	again := time.NewTimer(0)
	defer again.Stop()
	for {
		if !s.follow(ctx, v.policy().Metrics) {
			again.Reset(metricsAgain)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-v.Metrics.changed:
		case <-again.C:
		case <-s.ended: // ended on its own: the socket is gone
			s.close()
			again.Reset(metricsAgain)
		}
	}
}

// shownMetrics is the current listener. It belongs to one goroutine.
type shownMetrics struct {
	v     *View
	have  nodeconfig.Metrics // what is served; a zero Address means nothing
	names atomic.Pointer[http.Handler]
	stop  context.CancelFunc
	ended chan struct{} // closed when the listener has ended; nil if there is none
	said  string        // last logged error
}

// follow applies the wanted settings. It binds a new address before it closes the old listener. ok
// is false if the address could not be bound.
func (s *shownMetrics) follow(ctx context.Context, want nodeconfig.Metrics) (ok bool) {
	switch {
	case want == s.have:
		s.v.setMetrics(want, nil)
		return true
	case !want.Address.IsValid():
		s.close()
		s.v.setMetrics(want, nil)
		return true
	}
	handler := MetricsHandler(string(want.Namespace), MetricsSource{
		Sample: s.v.Sample, Status: s.v.Status, Log: s.v.Log,
		Panicked: func(value any) {
			s.v.config.Panics.Caught(s.v.Log, "task panicked", journal.TaskPanic, value, "task", "metrics")
		},
	})
	if want.Address == s.have.Address {
		s.names.Store(&handler)
		s.have = want
		return true
	}
	var config net.ListenConfig
	// Before Linux 6.4, connections accepted by a Multipath TCP listener have the label kernel_t,
	// which SELinux does not let the daemon read.
	config.SetMultipathTCP(false)
	listener, err := config.Listen(ctx, "tcp", want.Address.String())
	if err != nil {
		s.close() // the old listener is not wanted any more
		s.fail(want, err)
		return false
	}
	s.close()
	s.names.Store(&handler)
	s.have, s.said = want, ""
	s.serve(ctx, listener)
	s.v.Log.Info("serving metrics", "address", want.Address, "namespace", want.Namespace)
	if (control.Metrics{Address: want.Address.String()}).IsOpen() {
		s.v.Log.Warn("metrics are accessible from other hosts", "address", want.Address)
	}
	s.v.setMetrics(want, nil)
	return true
}

func (s *shownMetrics) fail(want nodeconfig.Metrics, err error) {
	var inner *net.OpError
	if errors.As(err, &inner) {
		err = inner.Err // without the address, which is logged separately
	}
	if errors.Is(err, unix.EADDRINUSE) {
		err = unix.EADDRINUSE
	}
	if text := want.Address.String() + err.Error(); text != s.said {
		s.said = text
		s.v.Log.Warn("cannot serve metrics", "address", want.Address, "error", err)
	}
	s.v.setMetrics(want, err)
}

func (s *shownMetrics) serve(ctx context.Context, listener net.Listener) {
	ctx, s.stop = context.WithCancel(ctx)
	ended := make(chan struct{})
	s.ended = ended
	go func() {
		defer close(ended)
		named := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*s.names.Load()).ServeHTTP(w, r) })
		if err := serveUntil(ctx, listener, named); err != nil {
			s.v.Log.Warn("metrics", "error", err)
		}
	}()
}

// close stops the listener and waits for its end.
func (s *shownMetrics) close() {
	if s.stop != nil {
		s.stop()
		<-s.ended
	}
	s.stop, s.ended, s.have = nil, nil, nodeconfig.Metrics{}
}

// setMetrics updates the status.
func (v *View) setMetrics(want nodeconfig.Metrics, err error) {
	state := control.Metrics{}
	if want.Address.IsValid() {
		state.Address = want.Address.String()
	}
	if err != nil {
		state.Error = err.Error()
	}
	v.Metrics.state.Store(&state)
}
