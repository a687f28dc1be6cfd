package daemon

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/node-dns/node-dns/internal/admin/dbusapi"
	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/forward"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/dnsmasqconf"
	"github.com/node-dns/node-dns/internal/hostdns"
	"github.com/node-dns/node-dns/internal/kube/clusterdns"
	"github.com/node-dns/node-dns/internal/localdata"
	"github.com/node-dns/node-dns/internal/netstate"
	"github.com/node-dns/node-dns/internal/nodeconfig"
	"github.com/node-dns/node-dns/internal/precedence"
	"github.com/node-dns/node-dns/internal/upstream"
)

// inputs are all that says what to serve.
type inputs struct {
	flags       Config
	config      nodeconfig.Config
	net         netstate.State
	record      []byte // the upstream record, for the addresses that pods were given earlier
	captured    upstream.Set
	from        precedence.Source  // of captured
	origin      string             // where that is, for people
	outdone     []precedence.Claim // what else the host says of itself; what is not weaker than captured does not count yet
	looping     map[nameserver.Server]struct{}
	recursive   []nameserver.Server // what dnsRecursiveResolvConf names, when it is not our own node resolv.conf
	bus         dbusapi.State       // what was set over D-Bus
	dnsmasq     dnsmasqconf.Config  // what dnsmasq's files say
	ownDNS      *fromCluster        // nil if fromCluster is off
	known       *known              // made before of the same dnsmasq; nil if there is none
	resolvFiles []nameserver.Server // what their resolv-file names
	files       int                 // how many files the process may open; 0: no bound
	problems    []string            // of gathering these

	kubeconfig string // the usual one; "": it does not exist
	found      nodeconfig.Kubeconfig
	hostname   string         // of this host
	hostSearch []dnsname.Name // the search list of the kubelet's resolv.conf
}

// serving is what to serve: a value made by newServing, never changed.
type serving struct {
	config        nodeconfig.Config
	net           netstate.State
	listen        []netip.AddrPort
	spare         []netip.AddrPort // those of listen that another program may have
	nodeIP        netip.Addr
	apexes        []dnsname.Name // the cluster domain and its reverse zones
	clusterDNS    []nameserver.Server
	clusterSource string
	routes        []forward.Route    // in the order of precedence; the root's is the last
	won           []precedence.Route // likewise, with where each is from
	lost          []precedence.Loss
	overrides     []dnsname.Name // the cluster's domains, or such within them, that go another way
	options       dbusapi.Options
	private       []dnsname.Name      // the reverse zones of private networks, where they are not asked upstream
	candidates    []nameserver.Server // all servers of the routes, those left out because they loop too
	problems      []string
	notes         []string // what an admin should know, though all is well
	dnsmasq       dnsmasqconf.Config
	own           *clusterdns.Settings // of ownDNS; nil if fromCluster is off
	known         *known
	settings      settings
	local         *localdata.Data // known's
	hostname      dnsname.Name    // the zero Name: it is none
	forwardMax    int             // dnsForwardMax, or what there are files for
	looping       map[nameserver.Server]struct{}
	api           api
	found         nodeconfig.Kubeconfig // where api's kubeconfig is from
	access        access
	search        *searchLists // of pods
	onWire        bool         // the cluster's names may be answered on the wire
	metrics       nodeconfig.Metrics
	hitsOnWire    bool // so may what is remembered
	missesOnWire  bool // what is not remembered is asked for, and what the upstreams say is remembered as it is
}

// newServing decides what to serve. It is pure.
func newServing(in inputs) *serving {
	place := hostdns.Place(in.config, in.net, in.record)
	s := &serving{
		config:     in.config,
		net:        in.net,
		listen:     wantedListeners(in.flags.Listen, place, in.net.Addrs),
		spare:      place.Spare,
		nodeIP:     place.Nameserver,
		clusterDNS: place.ClusterDNS,
		problems:   slices.Concat(in.problems, place.Problems),
		looping:    in.looping,
		dnsmasq:    in.dnsmasq,
		settings:   newSettings(in.config, in.dnsmasq),
	}
	s.hostname = nameOf(in.hostname)
	s.metrics = metricsOf(in.config, in.flags.Root)
	s.addFileListeners(in)
	s.api = newAPI(in.config, in.kubeconfig, in.hostname)
	if s.found = in.found; s.api != (api{}) && s.found.Original == s.api.original {
		s.api.kubeconfig = s.found.Use
		s.addFound()
	}
	s.search = newSearchLists(in.config, in.hostSearch)
	here := in.config
	if len(in.flags.Listen) > 0 {
		here.Resolver.Listen = nil // the command line says where, and nowhere else
	}
	s.access = newAccess(here, s.listen, in.net)
	s.listen = append(s.listen, s.access.listen...)
	s.forwardMax = s.settings.forwardMax
	if room := roomToForward(in.files, len(s.listen)); room < s.forwardMax {
		s.notes = append(s.notes, fmt.Sprintf("%d queries may wait for upstreams, not dnsForwardMax %d: the process may open %d files "+
			"(LimitNOFILE= of systemd.exec(5), ulimit -n)", room, s.forwardMax, in.files))
		s.forwardMax = room
	}
	if in.config.ClusterDomain.IsZero() {
		return s.unknown()
	}
	s.apexes = append([]dnsname.Name{in.config.ClusterDomain}, in.config.ReverseZones(place.ClusterDNS)...)
	s.clusterSource = clusterSource(in.config)
	if s.options = in.bus.Options; s.options.BogusPrivate {
		s.private = privateZones()
	}
	s.addOwn(in)
	s.addFiles(in)
	s.settle(s.claims(in))
	s.addLocal(in)
	s.hitsOnWire = !s.options.FilterA && !s.options.FilterAAAA
	s.missesOnWire = s.hitsOnWire && !s.settings.stopRebind && !s.settings.staleAtOnce && len(in.dnsmasq.Bogus)+len(in.dnsmasq.Ignored)+len(in.dnsmasq.Rewrites) == 0
	s.onWire = s.hitsOnWire && !hasLocalNames(in.config.ClusterDomain) && len(s.overrides) == 0 && !slices.ContainsFunc(s.apexes, s.local.Knows) && !s.local.Knows(clusterSet())
	if !s.isRouted(dnsname.Root()) {
		s.problems = append(s.problems, "no upstream nameserver is known: only cluster names are answered")
	}
	return s
}

// addFound says where the credentials are from, and what is wrong with that.
func (s *serving) addFound() {
	if s.found.Note != "" {
		s.notes = append(s.notes, s.found.Note)
	}
	if s.found.Problem != "" {
		s.problems = append(s.problems, s.found.Problem)
	}
}

// guarded are the routes, and one without servers for each of the cluster's zones that has none: its names fail in the
// forwarder too. They come there only while zone and routes are replaced one after the other, and must not go on to the
// site's nameservers.
func (s *serving) guarded() []forward.Route {
	routes := slices.Clone(s.routes)
	for _, apex := range s.apexes {
		if !s.isRouted(apex) {
			routes = append(routes, forward.Route{Domain: apex, Source: guard})
		}
	}
	return routes
}

// guard is the source of the routes that only keep names from other servers.
const guard = "guard"

// unknown is what is served while the cluster domain is not known: nothing. Of a name that may be the cluster's nobody
// could tell whether it may be sent to the site's nameservers. Where nobody answers, the hook does not point
// /etc/resolv.conf here.
func (s *serving) unknown() *serving {
	s.listen, s.clusterDNS = nil, nil
	s.problems = append(s.problems, "listening nowhere while the cluster domain is not known: its names would reach the upstream nameservers")
	return s
}

func (s *serving) isRouted(domain dnsname.Name) bool {
	return slices.ContainsFunc(s.routes, func(r forward.Route) bool { return r.Domain == domain && !r.Plain })
}

// isOverridden reports whether a name of the cluster's goes another way.
func (s *serving) isOverridden(name dnsname.Name) bool {
	return slices.ContainsFunc(s.overrides, name.Within)
}

func (s *serving) note(format string, args ...any) {
	s.notes = append(s.notes, fmt.Sprintf(format, args...))
}

// Listeners are the addresses at which a daemon with these files listens on a host with these addresses. It is pure. None: the
// host has no address yet, or a fault leaves the cluster domain unknown.
func Listeners(config nodeconfig.Config, files dnsmasqconf.Config, net netstate.State) []netip.AddrPort {
	return newServing(inputs{config: config, dnsmasq: files, net: net}).listen
}

// wantedListeners are the addresses to listen on: the command line's; or the placement's; or, for `listen: all`, every
// local address but those of lo, as dnsmasq's bind-dynamic with except-interface=lo.
func wantedListeners(flags []netip.AddrPort, place nodeconfig.Placement, addrs []netstate.Addr) []netip.AddrPort {
	if len(flags) > 0 {
		return flags
	}
	listen := slices.Clone(place.Listen)
	if !place.All {
		return listen
	}
	for _, addr := range addrs {
		at := netip.AddrPortFrom(addr.Addr, 53)
		if addr.Interface != "lo" && addr.Up && !addr.Tentative && !slices.Contains(listen, at) {
			listen = append(listen, at)
		}
	}
	return listen
}

func clusterSource(config nodeconfig.Config) string {
	return config.Where("clusterDomain", "kubeletArguments.cluster-domain", "dnsDomain", "clusterDNS",
		"kubeletArguments.cluster-dns", "dnsIP")
}
