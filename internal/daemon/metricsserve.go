package daemon

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/admin/metrics"
	"github.com/node-dns/node-dns/internal/nodeconfig"
	"github.com/node-dns/node-dns/internal/sys/journal"
)

// metricsAgain is how soon an address that could not be bound is tried again.
const metricsAgain = 2 * time.Second

// rewant has what is shown, and where, brought up to date. It never blocks.
func (m *metricsState) rewant() {
	tell(m.changed)
}

// serveMetrics shows the numbers where the configuration says until ctx ends. A port that somebody else has is tried again and
// again: DNS is served without.
func (d *Daemon) serveMetrics(ctx context.Context) error {
	s := shownMetrics{d: d}
	defer s.close()
	again := time.NewTimer(0)
	defer again.Stop()
	for {
		if !s.follow(ctx, d.policy().Metrics) {
			again.Reset(metricsAgain)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-d.metrics.changed:
		case <-again.C:
		case <-s.ended: // by itself: the socket is gone
			s.close()
			again.Reset(metricsAgain)
		}
	}
}

// shownMetrics is the listener that there is. It belongs to one goroutine.
type shownMetrics struct {
	d     *Daemon
	have  nodeconfig.Metrics // what is served; the zero Address: nothing
	names atomic.Pointer[http.Handler]
	stop  context.CancelFunc
	work  *sync.WaitGroup
	ended chan struct{} // is closed when the listener has ended; nil: there is none
	said  string        // the error that the log has last
}

// follow serves as is wanted: what is new is bound before what was there is closed. ok is false when it could not be bound.
func (s *shownMetrics) follow(ctx context.Context, want nodeconfig.Metrics) (ok bool) {
	switch {
	case want == s.have:
		s.d.setMetrics(want, nil)
		return true
	case !want.Address.IsValid():
		s.close()
		s.d.setMetrics(want, nil)
		return true
	}
	handler := metrics.Handler(string(want.Namespace), metrics.Source{
		Sample: s.d.sample, Status: s.d.Status, Log: s.d.log,
		Panicked: func(value any) {
			s.d.panics.Caught(s.d.log, "task panicked", journal.TaskPanic, value, "task", "metrics")
		},
	})
	if want.Address == s.have.Address {
		s.names.Store(&handler)
		s.have = want
		return true
	}
	var config net.ListenConfig
	// Linux before 6.4 labels what a Multipath TCP listener accepts kernel_t, which SELinux lets the daemon not read.
	config.SetMultipathTCP(false)
	listener, err := config.Listen(ctx, "tcp", want.Address.String())
	if err != nil {
		s.close() // of what is not wanted any more
		s.fail(want, err)
		return false
	}
	s.close()
	s.names.Store(&handler)
	s.have, s.said = want, ""
	s.serve(ctx, listener)
	s.d.log.Info("showing metrics", "address", want.Address, "namespace", want.Namespace)
	if (control.Metrics{Address: want.Address.String()}).IsOpen() {
		s.d.log.Warn("metrics are shown to others than this host", "address", want.Address)
	}
	s.d.setMetrics(want, nil)
	return true
}

func (s *shownMetrics) fail(want nodeconfig.Metrics, err error) {
	var inner *net.OpError
	if errors.As(err, &inner) {
		err = inner.Err // which does not say the address again
	}
	if errors.Is(err, unix.EADDRINUSE) {
		err = unix.EADDRINUSE
	}
	if text := want.Address.String() + err.Error(); text != s.said {
		s.said = text
		s.d.log.Warn("cannot show metrics", "address", want.Address, "error", err)
	}
	s.d.setMetrics(want, err)
}

func (s *shownMetrics) serve(ctx context.Context, listener net.Listener) {
	ctx, s.stop = context.WithCancel(ctx)
	ended := make(chan struct{})
	s.work, s.ended = new(sync.WaitGroup), ended
	s.work.Go(func() {
		defer close(ended)
		named := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*s.names.Load()).ServeHTTP(w, r) })
		if err := metrics.Serve(ctx, listener, named); err != nil {
			s.d.log.Warn("metrics", "error", err)
		}
	})
}

// close ends what is served, and waits for that.
func (s *shownMetrics) close() {
	if s.stop != nil {
		s.stop()
		s.work.Wait()
	}
	s.stop, s.work, s.ended, s.have = nil, nil, nil, nodeconfig.Metrics{}
}

// setMetrics is what the status says.
func (d *Daemon) setMetrics(want nodeconfig.Metrics, err error) {
	state := control.Metrics{}
	if want.Address.IsValid() {
		state.Address = want.Address.String()
	}
	if err != nil {
		state.Error = err.Error()
	}
	d.metrics.state.Store(&state)
}
