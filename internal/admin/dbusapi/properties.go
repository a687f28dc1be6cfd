package dbusapi

import (
	"strings"
	"time"

	"github.com/godbus/dbus/v5"

	"github.com/node-dns/node-dns/internal/admin/control"
)

// counts are the properties that change with each query, and are not announced.
var counts = map[string]bool{"Cache": true, "Queries": true, "UpstreamStatistics": true}

// A listenerProperty is an address that we listen on, (sbbs).
type listenerProperty struct {
	Address  string
	UDP, TCP bool
	Error    string
}

// A routeProperty is a route, (sssasb).
type routeProperty struct {
	Domain  string
	Kind    string // ask, local
	Source  string
	Servers []string
	InForce bool // else a stronger source has a route for the domain
}

// An upstreamProperty is a server, (ssts).
type upstreamProperty struct {
	Address, State string
	Since          uint64 // of the state, in microseconds since 1970; 0: not known
	Error          string // of the last failure
}

// A nameProperty is a name on the bus, (sbs).
type nameProperty struct {
	Name  string
	Owned bool
	Why   string
}

// newProperties are the manager's, of a status.
func newProperties(s control.Status) properties {
	p := properties{
		"Version":            dbus.MakeVariant(s.Version),
		"Started":            dbus.MakeVariant(microseconds(s.Started)),
		"Ready":              dbus.MakeVariant(s.Ready),
		"Problems":           dbus.MakeVariant(eachText(s.Problems)),
		"Notes":              dbus.MakeVariant(eachText(s.Notes)),
		"ClusterDomain":      dbus.MakeVariant(s.Cluster.Domain),
		"Listeners":          dbus.MakeVariant(listenerProperties(s)),
		"Routes":             dbus.MakeVariant(routeProperties(s)),
		"Upstreams":          dbus.MakeVariant(upstreamProperties(s)),
		"UpstreamStatistics": dbus.MakeVariant(upstreamStatistics(s)),
		"Cache": dbus.MakeVariant(map[string]uint64{
			"entries": uint64(s.Cache.Entries), "size": uint64(s.Cache.Size), "hits": s.Cache.Hits, "misses": s.Cache.Misses,
			"insertions": s.Cache.Insertions, "evictions": s.Cache.Evictions,
		}),
		"Queries": dbus.MakeVariant(map[string]uint64{
			"udp": s.Queries.UDP, "tcp": s.Queries.TCP, "shed": s.Queries.Shed, "dropped": s.Queries.Dropped, "panics": s.Queries.Panics,
		}),
	}
	names, options := []nameProperty{}, []string{}
	if s.Bus != nil {
		for _, name := range s.Bus.Names {
			names = append(names, nameProperty{name.Name, name.Owned, text(name.Why)})
		}
		options = append(options, s.Bus.Options...)
	}
	p["Names"], p["Options"] = dbus.MakeVariant(names), dbus.MakeVariant(options)
	return p
}

func listenerProperties(s control.Status) []listenerProperty {
	all := []listenerProperty{}
	for _, l := range s.Listeners {
		all = append(all, listenerProperty{text(l.Address), l.UDP, l.TCP, text(l.Error)})
	}
	return all
}

func routeProperties(s control.Status) []routeProperty {
	all := []routeProperty{}
	add := func(domain, source string, local, inForce bool, servers []string) {
		r := routeProperty{Domain: domain, Kind: "ask", Source: text(source), Servers: []string{}, InForce: inForce}
		if local {
			r.Kind = "local"
		}
		for _, server := range servers {
			r.Servers = append(r.Servers, text(server))
		}
		all = append(all, r)
	}
	for _, route := range s.Routes {
		var servers []string
		for _, server := range route.Servers {
			servers = append(servers, server.Address)
		}
		add(route.Domain, route.Source, route.Local, true, servers)
	}
	for _, lost := range s.Overridden {
		add(lost.Domain, lost.Source, lost.Local, false, lost.Servers)
	}
	return all
}

// eachUpstream calls f for each server of the routes, once.
func eachUpstream(s control.Status, f func(control.Server)) {
	seen := map[string]bool{}
	for _, route := range s.Routes {
		for _, server := range route.Servers {
			if !seen[server.Address] {
				seen[server.Address] = true
				f(server)
			}
		}
	}
}

func upstreamProperties(s control.Status) []upstreamProperty {
	all := []upstreamProperty{}
	eachUpstream(s, func(server control.Server) {
		all = append(all, upstreamProperty{text(server.Address), server.State, microseconds(server.Since), text(server.Error)})
	})
	return all
}

func upstreamStatistics(s control.Status) map[string]map[string]uint64 {
	all := map[string]map[string]uint64{}
	eachUpstream(s, func(server control.Server) {
		all[text(server.Address)] = map[string]uint64{
			"queries": server.Queries, "failures": server.Failures, "refusals": server.Refusals, "nxdomain": server.NXDomain,
			"retries": server.Retries, "rtt-microseconds": uint64(server.RTT.Microseconds()),
		}
	})
	return all
}

// text is s as D-Bus lets a string be (D-Bus Specification, "Basic types"). Of any other godbus sends nothing of the message, and
// what a file, an interface or a certificate is called may be any octets.
func text(s string) string { return strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", "?"), "?") }

func eachText(list []string) []string {
	all := []string{}
	for _, s := range list {
		all = append(all, text(s))
	}
	return all
}

func microseconds(t time.Time) uint64 {
	if t.IsZero() {
		return 0
	}
	return uint64(t.UnixMicro())
}
