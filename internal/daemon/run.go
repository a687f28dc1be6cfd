package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/admin/view"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/forward"
	"github.com/node-dns/node-dns/internal/hostdns"
	"github.com/node-dns/node-dns/internal/nodeconfig"
	"github.com/node-dns/node-dns/internal/policy"
	"github.com/node-dns/node-dns/internal/resolve"
	"github.com/node-dns/node-dns/internal/sys/journal"
	"github.com/node-dns/node-dns/internal/sys/supervise"
)

// drainTimeout bounds the queries in flight at a stop. It is as long as the slowest forwarded query
// takes.
const drainTimeout = 5 * time.Second

// Run serves until ctx ends, and then drains. It fails if it cannot start: another daemon is
// running, the named configuration file does not exist, or an address of the command line cannot be
// bound. An address from the configuration may appear later, and a port that another program holds
// may become free: Run waits for these and shows them in the status.
func Run(ctx context.Context, config Config) error {
	d, err := New(config)
	if err != nil {
		return err
	}
	return d.run(ctx)
}

func (d *Daemon) run(ctx context.Context) error {
	socket, err := control.Listen(control.SocketPath(d.config.Root))
	if err != nil {
		return err
	}
	f := newFollower(d)
	if err := f.start(ctx); err != nil {
		if ctx.Err() != nil {
			err = nil // stopped before it began
		}
		return errors.Join(err, socket.Close(), d.stop(ctx))
	}
	err = supervise.Run(ctx, supervise.Config{
		Log:     d.log,
		Reload:  d.reload,
		Report:  d.view.Report,
		Forget:  d.view.Forget,
		Tasks:   d.tasks(socket, f),
		Signals: d.config.Signals,
		Check:   d.view.Metrics.Health.Timed(d.server.Alive(dnsserver.HandlerFunc(d.resolver.ServeOwn)).Check),
		Hangs:   d.showStacks,
		Panics:  &d.panics,
	})
	return errors.Join(err, d.stop(context.WithoutCancel(ctx)))
}

// New returns a daemon that is not running yet.
func New(config Config) (*Daemon, error) {
	d := &Daemon{
		config:  config,
		log:     config.Log,
		paths:   newPaths(config),
		hints:   make(chan string, 1),
		reloads: make(chan reloading),
		loops:   resolve.NewLoops(),
		rewatch: make(chan struct{}, 1),
		rebus:   make(chan struct{}, 1),

		ownDNSChanged: make(chan struct{}, 1),

		busChanges: make(chan busChange),
		fresh:      fresh{asked: make(chan chan struct{})},
	}
	d.config.LookInterval = cmp.Or(config.LookInterval, defaultLookInterval)
	d.config.TrialInterval = cmp.Or(config.TrialInterval, resolve.TrialInterval)
	if config.AwaitRedirected == nil {
		d.config.AwaitRedirected = func(ctx context.Context) { supervise.Sleep(ctx, redirectedDrain) }
	}
	if d.log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}
	if config.ConfigFile != "" {
		if _, err := os.Stat(config.ConfigFile); err != nil {
			return nil, fmt.Errorf("reading the configuration: %w", err)
		}
		if filepath.Clean(config.ConfigFile) == nodeconfig.DefaultPaths(config.Root).NodeDNS {
			d.config.ConfigFile = ""
		}
	}
	d.view = view.New(view.Config{
		Version: config.Version, Revision: config.Revision, ConfigFile: d.config.ConfigFile, Root: config.Root,
		Log: d.log, Panics: &d.panics, Bus: d.busStatus, MemoryLimit: d.memory.limit.Load,
		SocketsNote: func() string { return d.sockets.note() },
	})
	d.plain, d.log = d.view.Plain, d.view.Log
	if config.SetMemoryLimit != nil {
		d.memory.own = config.SetMemoryLimit(-1)
	}
	d.sockets = newSockets(supervise.OpenStore(), d.log)
	if err := d.useServiceAccount(); err != nil {
		return nil, err
	}
	d.loadBus()
	d.loadFromCluster()
	d.view.History.Path = d.paths.history
	if err := d.view.History.Load(); err != nil {
		d.log.Warn("cannot load the server history; starting a new one", "error", err)
	}
	d.bus = d.newBus()
	d.config.Looker.Paths = d.paths.host
	d.config.Looker.Config = nodeconfig.DefaultPaths(config.Root)
	d.config.Looker.Memory = &hostdns.Memory{}
	if d.config.Files == 0 {
		var err error
		if d.config.Files, err = openFiles(); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// start looks at the host and begins to answer.
func (f *follower) start(ctx context.Context) error {
	if f.config.Invocation != "" {
		if _, err := f.paths.host.CheckWayBack(f.config.Invocation); err != nil {
			return err // else resolv.conf could name a daemon whose stop restores nothing
		}
	}
	seen, err := f.lookAtHost(ctx)
	if err != nil {
		return fmt.Errorf("inspecting the host: %w", err)
	}
	if err := seen.ConfigErr; err != nil {
		// A node without DNS is worse than one that serves the valid part of its configuration. A
		// node that sends the cluster's names to the site's nameservers is worse still: see
		// policy.New.
		f.log.Error("the configuration is partly invalid; using the valid part", "error", err, journal.ConfigFault.Attr())
		f.view.Problems.Store(&[]string{err.Error()}) // already logged
	}
	if err := seen.DnsmasqErr; err != nil {
		f.log.Error("dnsmasq's files are partly invalid; using the valid part", "error", err, journal.ConfigFault.Attr())
		known := append(slices.Clone(*f.view.Problems.Load()), err.Error())
		f.view.Problems.Store(&known)
	}
	f.fitMemory()
	first := f.newPolicy(seen, seen.Config, seen.Dnsmasq, f.usualKubeconfig())
	f.setLevel(first)
	from := f.inherit(f.config.Inherited)
	f.build(first)
	f.takeOverFrom(from)
	if err := f.listen(first); err != nil && len(f.config.Listen) > 0 {
		return fmt.Errorf("listening: %w", err)
	}
	if from.sockets > 0 {
		f.log.Info("took over", "sockets", from.sockets, journal.TookOver.Attr())
	}
	f.view.LogStart(first, startReason)
	f.setProblems(seen, first)
	f.announce()
	f.hint(startReason)
	return nil
}

// build creates the Resolver and the server in front of it.
func (d *Daemon) build(p *policy.Policy) {
	d.resolver = resolve.New(resolve.Config{
		Version: d.config.Version, Log: d.log, Panics: &d.panics,
		Numbers: d.view.BindNumbers, NoSearch: d.view.NoSearch,
		Forward: forward.Config{
			Log: d.log, Changed: d.busChanged, Suspect: d.loops.Suspect, Spent: d.charge,
			Lanes: d.config.Receivers, TLSAddr: d.config.TLSAddr,
		},
	}, p)
	d.loops.Dial = d.resolver.Forward().DialUDP
	d.server = dnsserver.New(dnsserver.Config{
		Log:         d.log,
		Access:      p.Access.Server,
		MaxInFlight: p.ForwardMax + localRoom,
		Shared:      p.ForwardMax,
		UDPSize:     int(p.Settings.UDP.Size),
		MaxTCP:      policy.RoomForTCP(d.config.Files),
		Handler:     d.resolver,
		Wire:        d.resolver.Fast,
		Sockets:     d.sockets,
		Miss:        d.resolver.Miss,
		Trouble:     d.view.Trouble,
		Failed:      d.view.Failed,
		UDPSockets:  d.config.Receivers,
		Threads:     d.config.Receivers,
	})
	d.loops.Expect = d.server.SetOwn
	d.view.Show(d.resolver, d.server)
}

// tasks lists the tasks that run until the daemon stops. supervise starts them.
func (d *Daemon) tasks(socket net.Listener, f *follower) []supervise.Task {
	return []supervise.Task{
		{Name: "control", Run: func(ctx context.Context) error { return control.Serve(ctx, socket, d.admin()) }},
		{Name: "follow", Run: f.follow},
		{Name: "log queries", Run: d.view.LogQueries, Restart: true},
		{Name: "D-Bus", Run: d.serveBus, Restart: true},
		{Name: "metrics", Run: d.view.ServeMetrics, Restart: true},
		{Name: "watch cluster", Run: d.watchCluster, Restart: true},
		{Name: "keep the cluster's DNS", Run: d.keepFromCluster, Restart: true},
		{Name: "watch answers", Run: d.watchAnswers, Restart: true},
		{Name: "watch files", Run: d.watchFiles, Restart: true},
		{Name: "watch limits", Run: d.view.WatchLimits, Restart: true},
		{Name: "watch loops", Run: d.watchLoops, Restart: true},
		{Name: "watch minute", Run: d.view.WatchMinute, Restart: true},
		{Name: "watch memory", Run: d.watchMemory, Restart: true},
		{Name: "watch kernel", Run: d.watchKernel, Restart: true},
		{Name: "watch NetworkManager", Run: d.watchNetworkManager, Restart: true},
	}
}

// stop accepts no new queries, finishes those in flight, and releases all resources.
func (d *Daemon) stop(ctx context.Context) error {
	d.withdraw()
	d.answerRedirected(ctx)
	ctx, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	if d.handsOver(ctx) {
		return d.handOver(ctx)
	}
	d.releaseInterception(ctx)
	var err error
	if d.server != nil {
		err = d.server.Shutdown(ctx)
	}
	if d.resolver != nil {
		d.resolver.Close() // no queries are left
	}
	return err
}

// charge counts the bytes that upstreams sent for a query against its client's limit.
func (d *Daemon) charge(client netip.Addr, octets int) { d.server.Charge(client, octets) }

// showStacks writes the stacks of all goroutines, like Go does after SIGABRT.
func (d *Daemon) showStacks() {
	const most = 1 << 20
	if d.config.Stacks == nil {
		return
	}
	stacks := make([]byte, most)
	if _, err := d.config.Stacks.Write(stacks[:runtime.Stack(stacks, true)]); err != nil {
		d.log.Warn("cannot write the stacks", "error", err)
	}
}
