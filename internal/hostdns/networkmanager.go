package hostdns

import (
	"context"
	"errors"
	"time"

	"github.com/node-dns/node-dns/internal/nm"
	"github.com/node-dns/node-dns/internal/sys/dbusconn"
)

const (
	// networkManagerTimeout is the first deadline for NetworkManager's answer. It usually answers
	// within milliseconds. If it was stopped by SIGSTOP or is stuck in a D-Bus call, it never
	// answers. On an overloaded node it may miss this deadline once or twice.
	networkManagerTimeout = 700 * time.Millisecond
	// lookReserve is the part of a run's time that retries must leave: a probe of the local
	// nameserver takes up to probeLimit.
	lookReserve = time.Second
)

// Memory keeps NetworkManager's last answer between looks, for a process that looks repeatedly. The
// zero value has no answer yet. It belongs to one goroutine.
type Memory struct {
	misses dbusconn.Misses
	last   *nm.Snapshot // the last answer; nil if there is none, or NetworkManager no longer runs
}

// IsWaiting reports whether NetworkManager has missed a deadline that is still tolerated. The next
// look should follow soon.
func (m *Memory) IsWaiting() bool { return m.misses.IsTolerated() }

// keep returns the answer that a look should use. While a missed deadline is tolerated, that is the
// last answer, because NetworkManager has not announced a change.
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
	// A host may run without NetworkManager, whose files still hold what it last knew.
	if err != nil && !errors.Is(err, nm.ErrNoBus) && !errors.Is(err, nm.ErrNotRunning) {
		s.problem("%v", err)
	}
}

// askNetworkManager returns a nil Snapshot with an error. With a Memory it asks once: the next look
// is the retry.
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

// AskNetworkManager reads one Snapshot over the system bus.
func AskNetworkManager(ctx context.Context) (nm.Snapshot, error) {
	client, err := nm.Dial(ctx)
	if err != nil {
		return nm.Snapshot{}, err
	}
	defer client.Close()
	return client.Snapshot(ctx)
}
