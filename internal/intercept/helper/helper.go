// Package helper is node-dns-intercept: it brings pods' queries to node-dns while that answers.
//
// It holds an nf_tables table that the kernel removes when this process ends, however it ends. Ten
// times a second it asks node-dns at each address, and it removes the rules of an address when no
// answer comes. Without the rules, the queries go to the cluster's DNS pods as if node-dns were not
// installed.
package helper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/intercept"
	"github.com/node-dns/node-dns/internal/sys/supervise"
)

// After the last answer, an address loses its rules within interval + probeTimeout, plus the
// milliseconds of a busy node.
const (
	interval     = 100 * time.Millisecond
	probeTimeout = 150 * time.Millisecond
)

const (
	// lookAgain is the interval between looks at the links of the addresses while all is well. A
	// missing address that node-dns serves fails the next probe, which causes a look after at most
	// lookSoon.
	lookAgain = 10 * time.Second
	lookSoon  = time.Second
	// lingerFor is how long addresses stay local after the daemon has withdrawn its request. A
	// stopping daemon still answers from them. It is longer than the daemon's drainTimeout.
	lingerFor = 6 * time.Second
	// notifyEvery is well below WatchdogSec= of node-dns-intercept.service.
	notifyEvery = 250 * time.Millisecond
)

// Config configures the helper.
type Config struct {
	Root string       // prefix of the files' paths; "" means /
	Stay bool         // without a request, wait for the next one, as a container must
	Log  *slog.Logger // never nil
}

// kernel holds the rules: a table, or a test's.
type kernel interface {
	set(list []served) error
	passages() (queries, responses passage, err error)
	close() error
}

var _ kernel = (*table)(nil)

// helper is the state of the loop. One goroutine uses it.
type helper struct {
	Config
	table    kernel
	identify func(ctx context.Context, at netip.AddrPort, deadline time.Time) (by string, err error)
	request  intercept.Request
	ways     []way // of the addresses in request, in the same order
	looked   time.Time
	notified time.Time // the last notification of systemd's watchdog
	state    intercept.State
	isBusy   bool           // another helper intercepts, and the log says so
	fault    string         // the logged reason why the request cannot be read; "" if it can
	filters  [2]filterWatch // of queries and of responses
	rules    []served       // in the kernel
	held     []held
	left     []left
	// forgetting is closed when the running deletion of connections ends; nil if none runs.
	forgetting chan struct{}
}

// Run intercepts until ctx ends or, unless Stay is set, the daemon withdraws its request. Only one
// process of a network namespace can intercept at a time. With Stay, another one is waited for, and
// the table exists only while the daemon requests interception: the helper of a package on the same
// host may need it. Run needs CAP_NET_ADMIN.
func Run(ctx context.Context, config Config) error {
	h := &helper{Config: config, identify: identify}
	if !config.Stay {
		return h.intercept(ctx)
	}
	defer os.Remove(intercept.AliveFile(config.Root))
	for h.awaitRequest(ctx) {
		err := h.intercept(ctx)
		isBusy := errors.Is(err, errBusy)
		if err != nil && !isBusy {
			return err
		}
		if isBusy && !h.isBusy {
			h.Log.Warn("waiting until another node-dns-intercept of this host ends", "error", err)
		}
		h.isBusy = isBusy
	}
	return nil
}

// intercept returns when loop does.
func (h *helper) intercept(ctx context.Context) error {
	t, err := openTable()
	if err != nil {
		return err
	}
	h.table = t
	if _, err := daemon.SdNotify(false, daemon.SdNotifyReady); err != nil {
		h.Log.Warn("cannot notify systemd", "error", err)
	}
	h.state = intercept.State{PID: os.Getpid(), Owned: t.owned, Addresses: []intercept.Address{}}
	if !t.owned {
		h.Log.Warn("this kernel does not remove the rules when the helper is killed; the unit removes them (Linux 5.12 does)")
	}
	if t.sockets == noSockets {
		h.Log.Warn("this kernel lacks nft_socket: pods' queries to a killed node-dns are lost until the next probe")
	}
	err = h.loop(ctx)
	return errors.Join(err, h.end())
}

// awaitRequest returns when the daemon requests interception, and reports false when ctx ends.
func (h *helper) awaitRequest(ctx context.Context) bool {
	wait := interval
	if h.isBusy {
		wait = lookSoon
	}
	for {
		h.notify()
		if !supervise.Sleep(ctx, wait) {
			return false
		}
		if h.follow(); len(h.request.Addrs) > 0 {
			return true
		}
	}
}

// Clean removes the rules of a helper that was killed, for kernels that do not do it themselves. If
// the daemon does not request interception any more, it also removes the link with the addresses.
func Clean(root string) error {
	t, err := openTable() // removes what an earlier one left
	if err != nil {
		return err
	}
	err = t.close()
	if request, failed := intercept.ReadRequest(intercept.RequestFile(root)); failed == nil && len(request.Addrs) > 0 {
		return err
	}
	return errors.Join(err, removeLink(), setReplies(nil, nil))
}

// identify is nameserver.Identify with probeMark.
func identify(ctx context.Context, at netip.AddrPort, deadline time.Time) (by string, err error) {
	return nameserver.Identify(ctx, &net.Dialer{Control: markProbe}, at, deadline)
}

func markProbe(_, _ string, c syscall.RawConn) error {
	var failed error
	err := c.Control(func(fd uintptr) { failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_MARK, probeMark) })
	return errors.Join(err, failed)
}

// loop returns when no address is requested or held any more and no client is translated, or when
// ctx ends.
func (h *helper) loop(ctx context.Context) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		h.follow()
		if err := h.step(ctx); err != nil {
			return err
		}
		h.forget(time.Now())
		if len(h.request.Addrs) == 0 && len(h.held) == 0 && !h.isForgetting() {
			return nil
		}
		h.notify()
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// notify tells systemd's watchdog or the kubelet that the helper works, several times a second.
func (h *helper) notify() {
	if time.Since(h.notified) < notifyEvery {
		return
	}
	h.notified = time.Now()
	_, _ = daemon.SdNotify(false, daemon.SdNotifyWatchdog) // if it fails, systemd acts
	if h.Stay {
		_ = os.WriteFile(intercept.AliveFile(h.Root), nil, 0o644) // if it fails, the kubelet acts
	}
}

// aliveFor is the age from which the file of a helper shows that it hangs.
const aliveFor = 5 * time.Second

// Alive returns an error if the helper of a container hangs. It is its liveness probe.
func Alive(root string, now time.Time) error {
	info, err := os.Stat(intercept.AliveFile(root))
	if err != nil {
		return fmt.Errorf("node-dns-intercept run --stay does not run: %w", err)
	}
	if age := now.Sub(info.ModTime()); age > aliveFor {
		return fmt.Errorf("node-dns-intercept has done nothing for %v", age.Round(time.Second))
	}
	return nil
}

// follow reads the request. A request that cannot be read counts as none.
func (h *helper) follow() {
	request, err := intercept.ReadRequest(intercept.RequestFile(h.Root))
	fault := ""
	if err != nil {
		fault = err.Error()
	}
	if fault != h.fault && fault != "" {
		h.Log.Error("cannot follow node-dns", "error", err)
	}
	if h.fault = fault; slices.Equal(request.Addrs, h.request.Addrs) && slices.Equal(request.Nodes, h.request.Nodes) && request.Translate == h.request.Translate {
		return
	}
	h.linger(time.Now())
	h.request, h.looked, h.filters = request, time.Time{}, [2]filterWatch{}
}

// step looks at the host, probes each address, and makes the rules follow the answers.
func (h *helper) step(ctx context.Context) error {
	if err := h.look(); err != nil {
		h.Log.Error("cannot make the addresses local", "error", err)
	}
	why := h.probe(ctx)
	if ctx.Err() != nil {
		return nil
	}
	if err := h.watchFilters(why); err != nil {
		return err
	}
	var rules []served
	for i, w := range h.ways {
		if why[i] == "" {
			rules = append(rules, w.served)
		}
	}
	return h.change(rules, why)
}

// watchFilters sets the reason of the addresses whose queries or responses a packet filter drops.
func (h *helper) watchFilters(why []string) error {
	queries, responses, err := h.table.passages()
	if err != nil {
		return err
	}
	now := time.Now()
	h.filters[0].see(now, queries)
	h.filters[1].see(now, responses)
	for i, w := range h.ways {
		switch {
		case w.mode != intercept.Local || why[i] != "":
		case h.filters[0].blocks(now):
			why[i] = filtered
		case h.filters[1].blocks(now):
			why[i] = filteredResponses
		}
	}
	return nil
}

// change makes the rules and the state file follow. The file never says that an address is off
// while its rules are there: the daemon closes its sockets then. A daemon that withdraws its
// request between the probe and the new rules finds the address on in the file, or is noticed here.
func (h *helper) change(rules []served, why []string) error {
	kept := slices.DeleteFunc(slices.Clone(h.rules), func(s served) bool { return !slices.Contains(rules, s) })
	if err := h.set(kept); err != nil {
		return err
	}
	if err := h.report(why); err != nil {
		return err
	}
	if len(kept) < len(rules) {
		if h.follow(); h.looked.IsZero() {
			return nil // another request, which the next step follows
		}
	}
	return h.set(rules)
}

func (h *helper) set(rules []served) error {
	if slices.Equal(rules, h.rules) {
		return nil
	}
	if err := h.table.set(rules); err != nil {
		return err
	}
	h.leave(h.rules, rules)
	h.rules = rules
	return nil
}

// probe asks node-dns at all addresses at the same time. It returns, for each of the ways, why the
// address must not be intercepted, or "".
func (h *helper) probe(ctx context.Context) []string {
	why := make([]string, len(h.ways))
	deadline := time.Now().Add(probeTimeout)
	var asked sync.WaitGroup
	for i, w := range h.ways {
		if why[i] = w.why; w.why != "" {
			continue
		}
		asked.Go(func() {
			by, err := h.identify(ctx, netip.AddrPortFrom(w.probe, port), deadline)
			why[i] = nameserver.WhyNotNodeDNS(w.probe, by, err, probeTimeout)
		})
	}
	asked.Wait()
	return why
}

// end removes the rules. The addresses, and the rules for responses from them, stay while the
// daemon requests interception: it may still answer, and without the other rules they do no harm.
func (h *helper) end() error {
	err := h.table.close()
	h.follow() // the request may have gone since the last step
	h.leave(h.rules, nil)
	h.ways, h.rules = nil, nil
	h.forgetNow()
	err = errors.Join(err, h.report(nil))
	if len(h.request.Addrs) == 0 {
		err = errors.Join(err, h.drop(time.Now()))
	}
	if failed := os.Remove(intercept.StateFile(h.Root)); failed != nil && !errors.Is(failed, os.ErrNotExist) {
		err = errors.Join(err, fmt.Errorf("removing the state: %w", failed))
	}
	return err
}
