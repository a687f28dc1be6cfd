package hostdns

import (
	"context"
	"errors"
	"time"

	"github.com/node-dns/node-dns/internal/nm"
	"github.com/node-dns/node-dns/internal/sys/dbusconn"
)

const (
	// networkManagerTimeout is how long NetworkManager may take at first to say what it knows. It answers within milliseconds, or,
	// stopped by SIGSTOP or stuck in a D-Bus call of its own, never. On an overloaded node it may miss this once or twice.
	networkManagerTimeout = 700 * time.Millisecond
	// lookReserve is the part of a run's time that retries leave: a probe of the local nameserver takes up to probeLimit.
	lookReserve = time.Second
)

// Memory keeps what NetworkManager answered from look to look, for a process that looks again and again. The zero value
// has no answer yet. It belongs to one goroutine.
type Memory struct {
	misses dbusconn.Misses
	last   *nm.Snapshot // the last answer; nil: none, or NetworkManager has gone since
}

// IsWaiting reports whether NetworkManager has missed a deadline that is not a problem yet. The next look should come
// soon.
func (m *Memory) IsWaiting() bool { return m.misses.IsTolerated() }

// keep returns what a look should use for the outcome of its question. While a missed deadline is tolerated that is the
// last answer: NetworkManager did not say that anything has changed.
func (m *Memory) keep(answer *nm.Snapshot, err error) (*nm.Snapshot, error) {
	m.misses = m.misses.After(err, time.Now())
	if !m.misses.IsTolerated() {
		m.last = answer
	}
	return m.last, m.misses.Problem(err)
}

func (s *State) lookAtNetworkManager(ctx context.Context, l Looker) {
	answer, err := l.askNetworkManager(ctx)
	if l.Memory != nil && ctx.Err() == nil {
		answer, err = l.Memory.keep(answer, err)
	}
	s.NetworkManager = answer
	// A host may do without NetworkManager, whose files still say what it last knew.
	if err != nil && !errors.Is(err, nm.ErrNoBus) && !errors.Is(err, nm.ErrNotRunning) {
		s.problem("%v", err)
	}
}

// askNetworkManager returns a nil Snapshot beside an error. With a Memory it asks once: the next look is the retry.
func (l Looker) askNetworkManager(ctx context.Context) (*nm.Snapshot, error) {
	ask := l.NetworkManager
	if ask == nil {
		ask = AskNetworkManager
	}
	first := networkManagerTimeout
	if l.Memory != nil {
		first = l.Memory.misses.Timeout(first)
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, first)
		defer cancel()
	}
	var answer *nm.Snapshot
	err := dbusconn.Retry(ctx, first, lookReserve, func(ctx context.Context) error {
		snapshot, err := ask(ctx)
		if err == nil {
			answer = &snapshot
		}
		return err
	})
	return answer, err
}

// AskNetworkManager takes one Snapshot over the system bus.
func AskNetworkManager(ctx context.Context) (nm.Snapshot, error) {
	client, err := nm.Dial(ctx)
	if err != nil {
		return nm.Snapshot{}, err
	}
	defer client.Close()
	return client.Snapshot(ctx)
}
