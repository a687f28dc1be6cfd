package hostdns

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/nm"
	"github.com/node-dns/node-dns/internal/resolvconf"
	"github.com/node-dns/node-dns/internal/sys/journal"
)

// Runner does whole runs: lock, look, plan, apply, and one log line about what was seen and
// decided.
type Runner struct {
	Looker  Looker
	Applier Applier
	Log     *slog.Logger // nil disables logging
	Ending  bool         // node-dns still answers but is about to stop, so do not warn about it
	ByHand  bool         // a person runs Apply: stop backing off from programs that overwrite our files
}

// Apply makes the host's files match its State. The event is only a hint, and goes into the log.
func (r Runner) Apply(ctx context.Context, event nm.Event) (Plan, Result, error) {
	return r.run(ctx, event, NewPlan)
}

// Event is Apply for NetworkManager's events. If node-dns is installed but not in use, it changes,
// reads and logs nothing, because installing node-dns must not change a node's DNS. The exceptions
// are a resolv.conf or drop-in that a removed node-dns left behind, and a resolv.conf that was
// emptied while it was being restored. Event restores these. A file with only the old script's line
// then belongs to the script.
func (r Runner) Event(ctx context.Context, event nm.Event) (Plan, Result, error) {
	paths := r.Looker.Paths
	r.Applier.Progress.is("checking whether node-dns is in use")
	if paths.inUse() {
		return r.Apply(ctx, event)
	}
	file := resolvconf.Parse(ReadFile(paths.Root, paths.ResolvConf).Data)
	emptied := len(file.Nameservers()) == 0 && ReadFile(paths.Root, paths.Original).Exists
	if !file.HasLine(Watermark) && !emptied && !paths.hasDropIn() {
		return Plan{}, Result{}, nil
	}
	return r.run(ctx, event, func(s State) Plan { return newRestorePlan(s, true) })
}

// Restore restores the original resolv.conf. With ifOurs it leaves a file alone that is not ours. A
// file with only the old script's line belongs to the script if a nameserver other than node-dns
// answers at its address: the script's dnsmasq runs again.
func (r Runner) Restore(ctx context.Context, ifOurs bool) (Plan, Result, error) {
	return r.run(ctx, nm.Event{Action: "restore"}, func(s State) Plan { return r.restorePlan(ctx, s, ifOurs) })
}

func (r Runner) restorePlan(ctx context.Context, s State, ifOurs bool) Plan {
	if ifOurs && r.isScripts(ctx, s.ResolvConf.Data) {
		return newLeavePlan(&s)
	}
	return newRestorePlan(s, ifOurs)
}

func (r Runner) isScripts(ctx context.Context, text []byte) bool {
	file := resolvconf.Parse(text)
	if file.HasLine(Watermark) || !file.HasLine(LegacyWatermark) {
		return false
	}
	for _, addr := range file.Nameservers() {
		by, err := r.Applier.probe(ctx, netip.AddrPortFrom(addr, nameserver.Port), false)
		return err == nil && by != "" && !nameserver.IsNodeDNS(by)
	}
	return false
}

func (r Runner) run(ctx context.Context, event nm.Event, decide func(State) Plan) (Plan, Result, error) {
	r.Applier.Progress.is("taking the lock %s", r.Looker.Paths.Lock)
	unlock, err := Lock(ctx, r.Looker.Paths.Lock)
	if err != nil {
		r.log(event, Plan{}, Result{ResolvConf: Failed}, err)
		return Plan{}, Result{ResolvConf: Failed}, err
	}
	defer unlock()
	return r.runLocked(ctx, event, decide)
}

// overtakes is how often one run looks again because another program has written resolv.conf
// meanwhile.
const overtakes = 3

func (r Runner) runLocked(ctx context.Context, event nm.Event, decide func(State) Plan) (Plan, Result, error) {
	var plan Plan
	var result Result
	var ended []string
	err := errNewer
	for n := 0; errors.Is(err, errNewer) && n <= overtakes; n++ {
		state := r.Looker.Look(ctx, event)
		if err := ctx.Err(); err != nil {
			// The look is incomplete: without the kernel's addresses, this node's own would count
			// as an upstream.
			err = fmt.Errorf("reading this host's state: %w", err)
			r.log(event, Plan{}, Result{ResolvConf: Failed}, err)
			return Plan{}, Result{ResolvConf: Failed}, err
		}
		if r.ByHand {
			if warnings := state.endBackoffs(); ended == nil {
				ended = warnings
			}
		}
		plan = decide(state)
		before := result.Written
		result, _, err = r.Applier.Apply(ctx, plan)
		result.Written = append(slices.DeleteFunc(before, func(path string) bool { return slices.Contains(result.Written, path) }), result.Written...)
	}
	removed, purgeErr := r.purge(ctx, plan, result)
	result.Written, err = append(result.Written, removed...), errors.Join(err, purgeErr)
	plan.Warnings = slices.Concat(plan.Warnings, ended, plan.lacks(), foreignResponder(plan, result.AnsweredBy), r.stillRunning(ctx, plan))
	r.log(event, plan, result, err)
	return plan, result, err
}

// log writes the one log line of a run. Its keys are stable, because tests and log searches depend
// on them.
func (r Runner) log(event nm.Event, p Plan, result Result, err error) {
	if r.Log == nil {
		return
	}
	r.Applier.Progress.is("logging")
	attrs := []slog.Attr{
		slog.String("event", event.Action),
		slog.String("interface", event.Interface),
		slog.String("source", string(p.Selection.Origin)),
		slog.String("upstreams", string(cmp.Or(p.Change, None))),
		slog.String("servers", serverList(p)),
		slog.String("resolv_conf", string(result.ResolvConf)),
	}
	add := func(key, value string) {
		if value != "" {
			attrs = append(attrs, slog.String(key, value))
		}
	}
	add("detail", p.Selection.Detail)
	add("route_sources", strings.Join(routeSources(p, "="), ", "))
	if p.Nameserver.IsValid() {
		add("nameserver", p.Nameserver.Addr().String())
	}
	if !nameserver.IsNodeDNS(result.AnsweredBy) {
		add("answered_by", result.AnsweredBy)
	}
	add("written", strings.Join(result.Written, " "))
	add("over", p.OverwrittenBy)
	add("held", p.Hold)
	add("refused", refusedList(p))
	add("conflict", strings.Join(p.Conflicts, "; "))
	add("warning", strings.Join(p.Warnings, "; "))
	add("problem", strings.Join(p.Problems, "; "))
	if result.Silence != nil {
		add("silence", result.Silence.Error())
	}
	level := slog.LevelInfo
	if p.RewriteLoop {
		level = slog.LevelWarn
	}
	if err != nil {
		level = slog.LevelError
		add("error", err.Error())
	}
	if condition := result.condition(p, err); condition != 0 {
		attrs = append(attrs, condition.Attr())
	}
	r.Log.LogAttrs(context.Background(), level, "host DNS", attrs...)
}

// condition returns the journal condition of a run, or 0 if nothing has changed.
func (r Result) condition(p Plan, err error) journal.Condition {
	switch {
	case r.ResolvConf == Blocked:
		return journal.ResolvConfBlocked
	case err != nil:
		return journal.HookFailed
	case r.ResolvConf == Written:
		return journal.ResolvConfPointed
	case r.ResolvConf == Restored:
		return journal.ResolvConfRestored
	case r.ResolvConf == Held && p.RewriteLoop:
		return journal.ResolvConfFought
	case r.ResolvConf == Held && p.Hold != notOurs && p.Hold != onlyCaptured && p.Hold != LeftToAdmin:
		return journal.ResolvConfHeld
	case r.ResolvConf == Waiting:
		return journal.ResolvConfWaiting
	}
	return 0
}

func serverList(p Plan) string {
	var list []string
	for _, server := range p.Selection.Set.Servers {
		list = append(list, server.String())
	}
	for _, route := range p.Selection.Set.Routes {
		for _, server := range route.Servers {
			list = append(list, route.Domain.String()+"="+server.String())
		}
	}
	return strings.Join(list, " ")
}

// routeSources lists the routes whose source is known, with the source.
func routeSources(p Plan, between string) []string {
	var list []string
	for _, route := range p.Selection.Set.Routes {
		if route.Source != "" {
			list = append(list, route.Domain.String()+between+route.Source)
		}
	}
	return list
}

func refusedList(p Plan) string {
	var list []string
	for _, r := range p.Selection.Refused {
		list = append(list, r.Text+" ("+r.Reason+")")
	}
	return strings.Join(list, ", ")
}

// Show reads and plans without changing anything. Its error is the reason why the local nameserver
// does not answer, or nil if it does.
func (r Runner) Show(ctx context.Context) (Plan, error) {
	p := NewPlan(r.Looker.Look(ctx, nm.Event{}))
	by, silence := r.Applier.ask(ctx, p)
	p.Warnings = slices.Concat(p.Warnings, p.lacks(), foreignResponder(p, by))
	return p, silence
}

// ShowRestore returns the plan of Restore, or of Purge if purge is set, without applying it.
func (r Runner) ShowRestore(ctx context.Context, ifOurs, purge bool) Plan {
	state := r.Looker.Look(ctx, nm.Event{})
	decide := r.restorePlan
	if purge {
		decide = r.purgePlan
	}
	p := decide(ctx, state, ifOurs)
	p.Warnings = append(p.Warnings, r.stillRunning(ctx, p)...)
	return p
}

// lacks returns Lacking as a list of warnings.
func (p Plan) lacks() []string {
	if p.Lacking == "" {
		return nil
	}
	return []string{p.Lacking}
}

// foreignResponder warns if another program answers in node-dns's place. It is only a warning:
// after a rollback that is dnsmasq.
func foreignResponder(p Plan, by string) []string {
	if by == "" || nameserver.IsNodeDNS(by) {
		return nil
	}
	return []string{fmt.Sprintf("%s answers on %v, not node-dns", by, p.Nameserver)}
}

// stillRunning warns if a running node-dns will undo a restore: it requests its own resolv.conf
// again a second later.
func (r Runner) stillRunning(ctx context.Context, p Plan) []string {
	if r.Ending || !p.Stopped.IsValid() || p.Hold != "" {
		return nil
	}
	if by, err := r.Applier.probe(ctx, p.Stopped, false); err != nil || !nameserver.IsNodeDNS(by) {
		return nil
	}
	return []string{`node-dns is running and will point /etc/resolv.conf here again; run "systemctl stop node-dns" first`}
}

// Progress records what a run is doing, for a watchdog that must end it: a system call on a hung
// file system (NFS without its server, FUSE) ignores the context. The zero Progress is ready to
// use. A nil one discards everything. It is safe for concurrent use.
type Progress struct {
	doing atomic.Pointer[string]
}

// String returns what the run is doing, such as "reading /etc/resolv.conf", or "starting" before
// its first action.
func (p *Progress) String() string {
	if doing := p.doing.Load(); doing != nil {
		return *doing
	}
	return "starting"
}

func (p *Progress) is(format string, args ...any) {
	if p != nil {
		doing := fmt.Sprintf(format, args...)
		p.doing.Store(&doing)
	}
}

// lockPoll is the interval between attempts to take the lock: flock(2) cannot wait with a deadline.
const lockPoll = 5 * time.Millisecond

// Lock serializes runs on one host: those of NetworkManager's hook, the daemon's requests and an
// admin. It waits until ctx ends. The kernel releases the lock when the process ends for any
// reason.
func Lock(ctx context.Context, path string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("creating the lock's directory: %w", err)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the lock: %w", err)
	}
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			f.Close()
			return nil, fmt.Errorf("locking %s: %w", path, err)
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, fmt.Errorf("waiting for another run to end: %w", ctx.Err())
		case <-time.After(lockPoll):
		}
	}
}
