package view

import (
	"fmt"
	"math"
	"net/netip"
	"os"
	"runtime"
	"runtime/metrics"
	"slices"
	"time"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/hostdns"
	"github.com/node-dns/node-dns/internal/policy"
	"github.com/node-dns/node-dns/internal/resolvconf"
	"github.com/node-dns/node-dns/internal/sys/procfs"
)

func clientsOf(a policy.Access) control.Clients {
	return control.Clients{AllowFrom: a.From, Networks: control.Texts(a.Networks), RateLimit: a.Server.Rate}
}

// Status collects the state of the daemon. It is safe for concurrent use once the daemon listens.
func (v *View) Status() control.Status {
	s := v.policy()
	status := control.Status{
		APIVersion:   control.APIVersion,
		Kind:         "Status",
		Version:      v.config.Version,
		PID:          os.Getpid(),
		Started:      v.started,
		Now:          time.Now(),
		Node:         v.nodeStatus(s),
		Listeners:    ListenerStatus(v.server.Listeners(), s.Spare),
		LeftTo:       s.LeftTo,
		Metrics:      *v.Metrics.state.Load(),
		Clients:      clientsOf(s.Access),
		Interception: v.interceptionStatus(s),
		Cluster:      v.clusterStatus(s),
		Routes:       routeStatus(s, v.resolver.Forward().Status()),
		Overridden:   lossStatus(s),
		Refused:      refusedStatus(s),
		Changed:      v.lastChange(),
		LastMinute:   v.LastMinute(time.Now()),
		Bus:          v.config.Bus(s),
		ResolvConf:   v.resolvConfStatus(),
		Cache:        v.cacheStatus(),
		Queries:      v.queryStatus(),
		SlowNames:    v.troubles.slowNames(time.Now(), shownNames, v.podOfAddr),
		Watched:      v.watchedStatus(),
		Process:      v.processStatus(),
		SELinux:      v.selinuxStatus(),
		Failing:      *v.Failing.Load(),
		Problems:     append([]string{}, *v.Problems.Load()...),
		Notes:        append([]string{}, s.Notes...),
	}
	status.Problems = append(status.Problems, found(status)...)
	status.Problems = append(status.Problems, v.clusterProblems()...)
	status.Ready = len(status.Unready()) == 0
	if v.config.ConfigFile != "" {
		status.Notes = append(status.Notes, "using "+v.config.ConfigFile+", which origin-dns-dispatcher does not read: "+
			"the host's files follow /etc/node-dns/node-dns.yaml")
	}
	if status.Metrics.IsOpen() {
		status.Notes = append(status.Notes, "metrics are accessible to every client that reaches "+status.Metrics.Address+" (metrics in node-dns.yaml)")
	}
	for _, at := range s.Spare {
		if slices.ContainsFunc(status.Listeners, func(l control.Listener) bool { return l.Spare && l.Address == at.String() }) {
			status.Notes = append(status.Notes, spareNote(s, at))
		}
	}
	if note := v.config.SocketsNote(); note != "" {
		status.Notes = append(status.Notes, note)
	}
	if seen := v.Host.Load(); seen != nil {
		status.Notes = append(status.Notes, seen.Plan.Conflicts...)
		status.Notes = append(status.Notes, seen.Plan.Warnings...)
		for _, r := range seen.Plan.Selection.Refused {
			status.Notes = append(status.Notes, "ignored as an upstream: "+r.Text+" from "+string(r.Origin)+" ("+r.Reason+")")
			status.Refused = append(status.Refused, control.Refused{Server: r.Text, Source: r.From(), Why: r.Reason})
		}
	}
	slices.Sort(status.Problems)
	status.Problems = slices.Compact(status.Problems)
	return status
}

// spareNote explains why another program may use an address that node-dns wants. A loopback address
// is from dnsBindAddress.
func spareNote(s *policy.Policy, at netip.AddrPort) string {
	why := "which pods may query"
	if at.Addr().IsLoopback() {
		why = "which " + s.Config.Where("dnsBindAddress") + " assigns to OpenShift's own nameserver"
	}
	return fmt.Sprintf("another program uses %v, %s; node-dns listens there when that program stops", at, why)
}

// found returns the problems that are visible in the status itself.
func found(s control.Status) []string {
	problems := []string{}
	if len(s.Listeners) == 0 && s.Cluster.Domain != "" && s.LeftTo == "" {
		problems = append(problems, "not listening because this node has no address yet")
	}
	for _, l := range s.Listeners {
		if l.IsFailed() {
			problems = append(problems, "not listening on "+l.Address+": "+l.Error)
		}
	}
	problems = append(problems, notIntercepted(s.Interception)...)
	if s.Metrics.Error != "" {
		problems = append(problems, "metrics are not served at "+s.Metrics.Address+": "+s.Metrics.Error)
	}
	problems = append(problems, s.Failing...)
	problems = append(problems, s.DownServers()...)
	if len(s.ResolvConf.Pending) > 0 {
		problems = append(problems, "the host's files are not up to date: origin-dns-dispatcher plan shows why")
	}
	return problems
}

func notIntercepted(i *control.Interception) []string {
	if i == nil {
		return nil
	}
	if why := i.Missing(); why != "" {
		return []string{"pods' queries to " + i.Subject() + " do not come to this node: " + why}
	}
	var problems []string
	for _, a := range i.Off() {
		problems = append(problems, "pods' queries to "+a.Address+" do not come to this node: "+a.Why)
	}
	return problems
}

func (v *View) nodeStatus(s *policy.Policy) control.Node {
	node := control.Node{}
	node.Name, _ = os.Hostname() // for display only
	if s.NodeIP.IsValid() {
		node.IP = s.NodeIP.String()
	}
	return node
}

// selinuxStatus returns the current mode and the domain at the start.
func (v *View) selinuxStatus() *control.SELinux {
	mode := v.selinux.Mode()
	if !mode.IsOn() {
		return nil
	}
	return &control.SELinux{Mode: string(mode), Domain: procfs.SELinuxType(v.context)}
}

func (v *View) resolvConfStatus() control.ResolvConf {
	status := control.ResolvConf{Path: "/etc/resolv.conf", Nameservers: []string{}, Search: []string{}, Pending: []string{}}
	seen := v.Host.Load()
	if seen == nil {
		return status
	}
	seen = seen.reread() // libc reads the current file, not the one at the last inspection
	file := seen.State.ResolvConf.Data
	text := resolvconf.Parse(file)
	status.Ours = hostdns.IsOurs(file)
	status.Owner = text.Owner()
	status.Nameservers = control.Texts(text.Nameservers())
	status.Search = append(status.Search, text.Search()...)
	if seen.State.Original.Exists {
		status.Original = "/var/lib/node-dns/resolv.conf.orig"
	}
	if seen.State.PointsResolved() {
		status.DropIn = "/run/systemd/resolved.conf.d/90-node-dns.conf"
	}
	status.Hold = seen.Plan.Hold
	status.Pending = append(status.Pending, seen.Pending(v.Listening())...)
	return status
}

func (v *View) cacheStatus() control.Cache {
	stats := v.resolver.Cache().Stats()
	return control.Cache{
		Entries: stats.Entries, Size: stats.Size, Hits: stats.Hits, Misses: stats.Misses,
		Insertions: stats.Insertions, Evictions: stats.Evictions,
	}
}

func (v *View) queryStatus() control.Queries {
	stats, forwarded := v.server.Stats(), v.resolver.Forward().Stats()
	limits := control.Limits{
		Strangers: stats.Strangers, Hasty: stats.Hasty, Crowding: stats.Crowding, Costly: stats.Costly, Full: stats.Shed, Upstream: forwarded.Shed,
		Silenced: stats.Silenced, TCPRefused: stats.TCPRejected, TCPIdle: stats.TCPEvicted, NoDescriptors: stats.TCPStarved,
	}
	limits.Crowder, limits.CrowderPod = v.crowder.seen(stats.Crowder, v.podAt(stats.Crowder))
	limits.Stranger, limits.StrangerPod = v.stranger.seen(stats.Stranger, v.podAt(stats.Stranger))
	return control.Queries{
		UDP: stats.UDPQueries, TCP: stats.TCPQueries, Dropped: stats.Dropped, Limits: limits,
		Shed:   limits.Full + limits.Crowding + limits.Costly + limits.Upstream,
		Panics: stats.Panics + forwarded.Panics + v.config.Panics.Count(),
		Moved:  forwarded.Moved,
	}
}

// LiveHeap returns the bytes in use after the last garbage collection.
func LiveHeap() int64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return int64(min(sample[0].Value.Uint64(), math.MaxInt64))
}

func (v *View) processStatus() control.Process {
	return control.Process{Goroutines: runtime.NumGoroutine(), Heap: LiveHeap(), MemoryLimit: v.config.MemoryLimit()}
}

// ListenerStatus combines UDP and TCP of one address. spare are the addresses that another program
// may have.
func ListenerStatus(listeners []dnsserver.Listener, spare []netip.AddrPort) []control.Listener {
	all := []control.Listener{}
	for _, l := range listeners {
		address := l.Addr.String()
		i := slices.IndexFunc(all, func(have control.Listener) bool { return have.Address == address })
		if i < 0 {
			all = append(all, control.Listener{Address: address})
			i = len(all) - 1
		}
		if l.Err != "" {
			all[i].Error = l.Err
			all[i].Spare = l.InUse && slices.Contains(spare, l.Addr)
			continue
		}
		all[i].UDP = all[i].UDP || l.Proto == dnsserver.UDP
		all[i].TCP = all[i].TCP || l.Proto == dnsserver.TCP
	}
	return all
}

// Listening returns the bound addresses.
func (v *View) Listening() []netip.AddrPort {
	var addrs []netip.AddrPort
	for _, l := range v.server.Listeners() {
		if l.Err == "" && !slices.Contains(addrs, l.Addr) {
			addrs = append(addrs, l.Addr)
		}
	}
	return addrs
}
