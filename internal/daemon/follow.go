package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/dns/cache"
	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/dns/zone"
	"github.com/node-dns/node-dns/internal/dnsmasqconf"
	"github.com/node-dns/node-dns/internal/hostdns"
	"github.com/node-dns/node-dns/internal/netstate"
	"github.com/node-dns/node-dns/internal/nodeconfig"
	"github.com/node-dns/node-dns/internal/sys/journal"
	"github.com/node-dns/node-dns/internal/sys/supervise"
)

const (
	// settle is how long hints are gathered: a renewal is a dozen events within milliseconds, a carrier flap more.
	settle = 50 * time.Millisecond
	// listenAgain is how soon an address that could not be bound is tried again.
	listenAgain = time.Second
	// missedAgain is how soon a NetworkManager that has missed a deadline is asked again.
	missedAgain = time.Second
	// clusterLimit is how long an answer for a cluster name may be cached: a Service that appears or moves must be
	// seen within seconds, whatever the cluster DNS server's TTL (30 s in CoreDNS) and negative TTL say.
	clusterLimit = 5 * time.Second
)

// Reasons of looks that nothing hinted at.
const (
	lookForStatus = "status"
	lookAgainSoon = "again"
	lookAtTime    = "time"
)

// follow looks again whenever something hints that it should, and takes over what has changed. It alone changes what
// is served.
func (d *Daemon) follow(ctx context.Context) error {
	again, tick := time.NewTimer(0), time.NewTicker(lookAgain)
	defer again.Stop()
	defer tick.Stop()
	look := func(reason string) {
		if wait := d.reconcile(ctx, reason); wait > 0 {
			again.Reset(wait)
		}
		d.fresh.looked()
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case order := <-d.reloads:
			order.done <- d.reloadNow(ctx, order.by)
		case change := <-d.busChanges:
			change.done <- d.takeOverBus(change.state)
		case first := <-d.fresh.asked:
			d.fresh.answer(ctx, first, func() { look(lookForStatus) })
		case reason := <-d.hints:
			if !supervise.Sleep(ctx, max(settle, time.Until(d.fresh.next))) {
				return nil
			}
			d.drainHints()
			look(reason)
		case <-again.C:
			look(lookAgainSoon)
		case <-tick.C:
			look(lookAtTime)
		}
	}
}

// drainHints drops the hints that came while things settled: the look that follows sees what they were about.
func (d *Daemon) drainHints() {
	select {
	case <-d.hints:
	default:
	}
}

// reconcile looks, takes over, and asks for what the privileged half must write. It says when to come back although
// nothing hints; zero: not.
func (d *Daemon) reconcile(ctx context.Context, reason string) time.Duration {
	before := d.host.Load()
	view, err := d.lookAtHost(ctx)
	if err != nil {
		return 0 // we stop
	}
	running := d.serving.Load()
	config, again := d.follower.next(running.config, view)
	files, alsoAgain := d.follower.nextDnsmasq(running.dnsmasq, view)
	next := d.newServing(view, config, files, d.keptKubeconfig())
	wait := d.takeOver(next, cause(reason, d.lastHint.Load(), before, view))
	wanted := d.wanted(view, next.found, reason)
	news, later := d.request.ask(time.Now(), reason, wanted)
	switch news {
	case askedNow:
		d.request.owed = d.request.owed || view.state.Paths.HaveHistory(wanted)
		d.metrics.requests.add(reason)
		d.log.Info("asked for the host's files to be written", "reason", reason, "files", d.request.want)
	case askedDone:
		if view.plan.Fought {
			break // which is a problem, and has a line of its own
		}
		d.log.Info("the host's files are what they should be", "reason", reason)
	}
	d.setProblems(view, next)
	if wait == 0 || later > 0 && later < wait {
		wait = later
	}
	if d.config.Looker.Memory.IsWaiting() && (wait == 0 || wait > missedAgain) {
		wait = missedAgain
	}
	if again || alsoAgain {
		return settle
	}
	return wait
}

// takeOver serves next instead of what is served now. What is the same is left as it is: sockets stay open, upstreams
// keep their health, and the cache keeps what came from servers that are still asked. by says what it is about.
func (d *Daemon) takeOver(next *serving, by string) time.Duration {
	old := d.serving.Swap(next)
	d.mark.Add(1)
	d.setLevel(next)
	d.metrics.rewant()
	d.followLogQueries(old, next)
	if !reflect.DeepEqual(old.config, next.config) {
		d.log.Info("configuration taken over", journal.ConfigTaken.Attr())
		d.metrics.config.take(time.Now())
	}
	if was, is := old.config, next.config; was.ClusterDomain != is.ClusterDomain {
		d.log.Info("cluster domain", "domain", is.ClusterDomain.String(), "before", was.ClusterDomain.String(), "source", next.clusterSource)
	}
	if old.api != (api{}) && next.api == (api{}) {
		d.log.Info("the Kubernetes API is not watched any more", "kubeconfig", old.api.kubeconfig)
	}
	if old.config.Resolver.FromCluster && !next.config.Resolver.FromCluster {
		d.forgetFromCluster()
	}
	if next.settings != old.settings {
		d.cache.Store(d.newCache(next.settings))
	}
	if !reflect.DeepEqual(old.dnsmasq, next.dnsmasq) {
		d.log.Info("dnsmasq's files taken over", "files", few(next.dnsmasq.Files, " "), journal.ConfigTaken.Attr())
	}
	d.forward.SetRoutes(next.guarded())
	d.forward.SetMaxInFlight(next.forwardMax)
	d.forward.SetAll(next.dnsmasq.Has("all-servers"))
	d.forward.SetOpportunistic(next.isOpportunistic())
	d.server.SetMaxInFlight(next.forwardMax+localRoom, next.forwardMax)
	d.server.SetAccess(next.access.server)
	if next.settings.udp != old.settings.udp {
		d.forward.SetUDP(next.settings.udp)
		d.server.SetUDPSize(int(next.settings.udp.Size))
	}
	d.setResolver(next)
	d.zone.Set(d.authority(next))
	d.mark.Add(1) // what was marked meanwhile may have been compared with the zones of before
	if !sameRoutes(old.routes, next.routes) {
		d.logRoutes(old.routes, next.routes)
		d.noteRoutes(by, next.routes)
		// Only then: a flush also drops the answers that are on their way.
		d.log.Info("flushed what came from other upstreams", "entries", d.flushStale())
	}
	d.logNotes(old.notes, next.notes)
	err := d.listen(next)
	if old.config.DBus != next.config.DBus {
		select {
		case d.rebus <- struct{}{}:
		default:
		}
	}
	if !slices.Equal(old.candidates, next.candidates) {
		d.reroute()
	}
	d.announce()
	wait := d.sockets.letGo(time.Now())
	if _, _, left := dnsserver.ReadTerms(d.paths.terms); left > 0 && (wait == 0 || wait > left) {
		wait = left // after which they are what they were
	}
	if err != nil && (wait == 0 || wait > listenAgain) {
		return listenAgain
	}
	return wait
}

// setProblems replaces what an admin should know, and logs what is new of it.
func (d *Daemon) setProblems(view *hostView, s *serving) {
	now := slices.Concat(s.problems, view.problems())
	inVain := d.request.problem()
	if inVain != "" && view.plan.Over != "" {
		inVain = "/etc/resolv.conf is written over by " + view.plan.Over // the request was heard, and done
	}
	for _, problem := range []string{inVain, d.unready, d.unkept} {
		if problem != "" {
			now = append(now, problem)
		}
	}
	slices.Sort(now)
	now = slices.Compact(now)
	d.metrics.config.look(errors.Join(view.configErr, view.dnsmasqErr))
	d.logProblems(*d.problems.Swap(&now), now, view.configErr)
	d.busChanged()
}

// reroute has the upstreams probed for loops. It never blocks.
func (d *Daemon) reroute() {
	select {
	case d.rerouted <- struct{}{}:
	default:
	}
}

// suspect has them probed soon. It never blocks.
func (d *Daemon) suspect() {
	select {
	case d.suspects <- struct{}{}:
	default:
	}
}

func (d *Daemon) setLevel(s *serving) {
	if d.config.Level != nil {
		d.config.Level.Set(s.config.LogLevel)
	}
}

// newServing gathers the inputs and decides. kubeconfig is used where the configuration names none; "": there is none.
func (d *Daemon) newServing(view *hostView, config nodeconfig.Config, files dnsmasqconf.Config, kubeconfig string) *serving {
	captured := hostdns.Captured(view.state.Upstreams, view.state.Record)
	if captured.Set.IsEmpty() {
		// The hook has not run yet (or may not write): what it would capture serves as well.
		selection := view.plan.Selection
		captured = hostdns.Capture{Set: selection.Set, Origin: selection.Origin, From: strings.TrimSpace(string(selection.Origin) + " " + selection.Detail)}
	}
	if captured.Set.IsEmpty() {
		captured = d.lastCapture // law 2 holds for what is served too: the files may be gone, or could not be read
	}
	d.lastCapture = captured
	d.lastNet = steady(d.lastNet, view.state.Net)
	recursive, problem := d.recursive(config)
	var problems []string
	if problem != "" {
		problems = append(problems, problem)
	}
	if path := d.goneKubeconfig(); path != "" && path == d.credentials(config, kubeconfig).Use {
		problems = append(problems, "the kubeconfig "+path+" is gone: the Kubernetes API is watched with what was read from it")
	}
	hostname, _ := os.Hostname() // a host without a name has an empty one
	var ownDNS *fromCluster
	if config.Resolver.FromCluster {
		ownDNS = d.ownDNS.Load()
	}
	var before *known
	if old := d.serving.Load(); old != nil && old.hostname == nameOf(hostname) && reflect.DeepEqual(old.dnsmasq, files) {
		before = old.known
	}
	return newServing(inputs{
		ownDNS:      ownDNS,
		known:       before,
		kubeconfig:  kubeconfig,
		found:       d.credentials(config, kubeconfig),
		hostname:    hostname,
		hostSearch:  d.hostSearch(config),
		flags:       d.config,
		config:      config,
		net:         d.lastNet,
		record:      view.state.Record.Data,
		captured:    captured.Set,
		from:        sourceOfCapture(captured, view.plan.Selection),
		origin:      captured.From,
		outdone:     outdone(view.plan.Selection),
		looping:     d.loops.looping(),
		files:       d.config.Files,
		recursive:   recursive,
		bus:         d.wantedBus(config),
		dnsmasq:     files,
		resolvFiles: d.resolvFiles(files),
		problems:    problems,
	})
}

// steady is what the kernel says now, but for what must not end a node's DNS: a look that failed (no addresses at all: no
// file descriptor was left) stands for nothing, and a default route that went away leaves the node IP where it was for
// as long as the address is still local. dnsmasq keeps its socket then too.
func steady(before, now netstate.State) netstate.State {
	if len(now.Addrs) == 0 {
		return before
	}
	if node := before.NodeIP(); !now.NodeIP().IsValid() && node.IsValid() && now.IsLocal(node) {
		now.Default4, now.Default6 = before.Default4, before.Default6
		if !now.NodeIP().IsValid() { // it was the only address, and is not any more
			now.Default4 = &netstate.DefaultRoute{Source: node}
		}
	}
	return now
}

func (d *Daemon) authority(s *serving) zone.Authority {
	authority := zone.Authority{Apexes: s.apexes}
	if resolver := d.names.resolver.Load(); resolver != nil {
		authority.Apexes = append(resolver.Apexes(), s.apexes...)
		authority.Cluster = dnsserver.HandlerFunc(d.serveCluster)
	} else if len(s.clusterDNS)+len(s.overrides) > 0 {
		authority.Cluster = dnsserver.HandlerFunc(d.serveCluster)
	}
	return authority
}

func (d *Daemon) serveCached(ctx context.Context, q *dnsserver.Query) (*dns.Msg, error) {
	if q.Msg.Question[0].Qtype == dns.TypeANY {
		q.Origin = dnsserver.OriginRule
		return minimalAny(q), nil
	}
	return d.cache.Load().ServeDNS(ctx, q)
}

// flushStale forgets the answers of servers that are not asked for the name any more.
func (d *Daemon) flushStale() int {
	return d.cache.Load().Flush(func(r cache.Remembered) bool { return d.isStale(r.Entry) })
}

func (d *Daemon) isStale(entry cache.Entry) bool {
	route, ok := d.forward.Match(entry.Name)
	return !ok || !slices.Contains(route.Servers, entry.Server)
}

func (d *Daemon) cacheLimit(name dnsname.Name) time.Duration {
	if slices.ContainsFunc(d.serving.Load().apexes, name.Within) {
		return clusterLimit
	}
	return 0
}

func (d *Daemon) isRouted(name dnsname.Name) bool {
	route, ok := d.forward.Match(name)
	return ok && !route.Domain.IsRoot()
}

// announce and withdraw keep the ready file: it exists while queries are answered.
func (d *Daemon) announce() {
	d.logReady()
	if len(d.listening()) == 0 {
		d.withdraw()
		return
	}
	d.unready = ""
	err := errors.Join(os.MkdirAll(d.paths.run, 0o755), os.WriteFile(d.paths.ready, nil, 0o644))
	if err != nil {
		d.unready = fmt.Sprintf("the ready file cannot be written: %v", err)
	}
}

func (d *Daemon) withdraw() {
	if err := os.Remove(d.paths.ready); err != nil && !errors.Is(err, os.ErrNotExist) {
		d.log.Warn("ready file", "error", err)
	}
}
