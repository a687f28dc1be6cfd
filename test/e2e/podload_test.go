package e2e

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// podLoad queries a nameserver from a pod at a steady rate. Each query has its own socket, like
// those of glibc, its own timeout, and no retry, so every lost packet counts.
type podLoad struct {
	// stop ends the queries, waits for the last answers, and returns the result. Later calls return
	// the same.
	stop func() (podLoadResult, error)

	server  netip.AddrPort
	began   time.Time
	stopped chan struct{} // closed by stop
	sending chan error    // receives the sender's result
	waiting sync.WaitGroup

	mu     sync.Mutex // guards the fields below
	result podLoadResult
	last   time.Time // time of the last answer, or of the start
}

// podLoadResult is the result of a podLoad.
type podLoadResult struct {
	sent     int
	answered map[netip.Addr]int // by the address in the answer
	lost     []lostQuery
	gap      time.Duration // longest time between two answers
	slowest  time.Duration // of the answers
	behind   time.Duration // longest delay of a query
}

// lostQuery is a query without an answer.
type lostQuery struct {
	at  time.Duration // since the start of the load
	why string
}

// refusedByICMP is the reason for losing a query that reached a host without a socket for it.
const refusedByICMP = "refused by ICMP"

// podLoadTimeout is the default timeout of a query in resolv.conf(5).
const podLoadTimeout = 5 * time.Second

// startLoad starts to send queries from the namespace, until stop or the end of the test.
func (n *netns) startLoad(server netip.AddrPort, perSecond int) *podLoad {
	now := time.Now()
	l := &podLoad{
		server:  server,
		began:   now,
		stopped: make(chan struct{}),
		sending: make(chan error, 1),
		last:    now,
		result:  podLoadResult{answered: map[netip.Addr]int{}},
	}
	l.stop = sync.OnceValues(l.end)
	n.t.Cleanup(func() { l.stop() })
	go func() { l.sending <- n.tryInside(func() error { return l.send(perSecond) }) }()
	return l
}

func (l *podLoad) end() (podLoadResult, error) {
	close(l.stopped)
	err := <-l.sending
	l.waiting.Wait()
	return l.result, err
}

// answeredBy returns the number of answers with the address so far.
func (l *podLoad) answeredBy(addr netip.Addr) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.result.answered[addr]
}

// send sends each query at its time. If it is late, because other processes have the CPU, the whole
// schedule moves: catching up would be a burst, at a much higher rate than the node is tested with.
func (l *podLoad) send(perSecond int) error {
	pace := time.Second / time.Duration(perSecond)
	due := time.Now()
	for i := 0; ; i++ {
		select {
		case <-l.stopped:
			return nil
		case <-time.After(time.Until(due)):
		}
		late := time.Since(due)
		if due = due.Add(pace); late > behindNoted {
			due = due.Add(late)
		}
		conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(l.server))
		if err != nil {
			return fmt.Errorf("opening a socket for query %d: %w", i, err)
		}
		query := new(dns.Msg).SetQuestion(fmt.Sprintf("q%d.load.test.", i), dns.TypeA)
		wire, err := query.Pack()
		if err != nil {
			return err
		}
		at := time.Now()
		l.mu.Lock()
		l.result.sent++
		l.result.behind = max(l.result.behind, late)
		l.mu.Unlock()
		if _, err := conn.Write(wire); err != nil {
			l.lose(at.Sub(l.began), err)
			conn.Close()
			continue
		}
		l.waiting.Go(func() {
			defer conn.Close()
			if addr, err := receive(conn, query, at.Add(podLoadTimeout)); err != nil {
				l.lose(at.Sub(l.began), err)
			} else {
				l.answer(addr, at)
			}
		})
	}
}

// receive waits for the answer to a query and returns its address.
func receive(conn *net.UDPConn, query *dns.Msg, deadline time.Time) (netip.Addr, error) {
	if err := conn.SetReadDeadline(deadline); err != nil {
		return netip.Addr{}, err
	}
	buffer := make([]byte, udpSize)
	for {
		n, err := conn.Read(buffer)
		if err != nil {
			return netip.Addr{}, err
		}
		m := new(dns.Msg)
		if m.Unpack(buffer[:n]) == nil && m.Response && m.Id == query.Id && slices.Equal(m.Question, query.Question) {
			return firstAddr(m)
		}
	}
}

func (l *podLoad) answer(addr netip.Addr, sent time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.result.answered[addr]++
	l.result.slowest = max(l.result.slowest, now.Sub(sent))
	l.result.gap = max(l.result.gap, now.Sub(l.last))
	l.last = now
}

func (l *podLoad) lose(at time.Duration, err error) {
	why := err.Error()
	var timeout net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		why = refusedByICMP
	case errors.As(err, &timeout) && timeout.Timeout():
		why = fmt.Sprintf("no answer for %v", podLoadTimeout)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.result.lost = append(l.result.lost, lostQuery{at, why})
}

// afterFailure returns what is wrong with the result if the processes that answered failed during
// the load. Nothing may reach them from a time on, since the start of the load. Before, a query may
// be lost if it is in flight: a socket of theirs has received it. The kernel decides for each
// packet whether there is a socket. On each CPU, one packet may be between that decision and a
// socket that closes.
func (r podLoadResult) afterFailure(from time.Duration, cpus int) (faults []string) {
	late, refused := 0, 0
	for _, q := range r.lost {
		if q.at > from {
			late++
		}
		if q.why == refusedByICMP {
			refused++
		}
	}
	if late > 0 {
		faults = append(faults, fmt.Sprintf("%d of the lost queries were sent later than %v", late, from))
	}
	if refused > cpus {
		faults = append(faults, fmt.Sprintf("%d queries reached a closed socket", refused))
	}
	if limit := time.Second + r.behind; r.gap > limit {
		faults = append(faults, fmt.Sprintf("no answer for %v, at most %v is allowed", r.gap, limit))
	}
	return faults
}

// TestAfterFailure: see afterFailure.
func TestAfterFailure(t *testing.T) {
	const from = 300 * time.Millisecond
	inFlight := lostQuery{from, "no answer for 5s"}
	for _, test := range []struct {
		name string
		r    podLoadResult
		want []string
	}{
		{"in flight", podLoadResult{lost: []lostQuery{inFlight, inFlight, inFlight}, gap: time.Second}, nil},
		{"sent later", podLoadResult{lost: []lostQuery{inFlight, {from + 1, "no answer for 5s"}}}, []string{"1 of the lost queries were sent later than 300ms"}},
		{"one refused on each CPU", podLoadResult{lost: []lostQuery{{0, refusedByICMP}, {0, refusedByICMP}}}, nil},
		{"refused", podLoadResult{lost: []lostQuery{{0, refusedByICMP}, {0, refusedByICMP}, {0, refusedByICMP}}}, []string{"3 queries reached a closed socket"}},
		{"the load paused", podLoadResult{gap: 3 * time.Second, behind: 2 * time.Second}, nil},
		{"no answer", podLoadResult{gap: 3 * time.Second, behind: time.Second}, []string{"no answer for 3s, at most 2s is allowed"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := test.r.afterFailure(from, 2); !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// String returns everything in one line, with the first lost queries.
func (r podLoadResult) String() string {
	var answered []string
	for addr, n := range r.answered {
		answered = append(answered, fmt.Sprintf("%d answered by %s", n, addr))
	}
	slices.Sort(answered)
	text := fmt.Sprintf("%d sent, %s, %d lost, longest gap %v, slowest answer %v", r.sent, strings.Join(answered, ", "),
		len(r.lost), r.gap.Round(time.Microsecond), r.slowest.Round(time.Microsecond))
	if r.behind > behindNoted {
		text += fmt.Sprintf("; the load paused for up to %v", r.behind.Round(time.Millisecond))
	}
	for _, q := range r.lost[:min(len(r.lost), 10)] {
		text += fmt.Sprintf("; query lost %v after the start: %s", q.at.Round(time.Millisecond), q.why)
	}
	return text
}

// behindNoted is the delay that moves the schedule, and that String mentions.
const behindNoted = 20 * time.Millisecond
