package dbusapi

import (
	"context"
	"maps"
	"reflect"
	"strings"
	"time"

	"github.com/godbus/dbus/v5"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/dnsmasqconf"
)

var managerMethods = map[string]method{
	"FlushCache": changing(func(l *link, _ context.Context, _ request) ([]any, error) {
		return []any{uint32(l.config.FlushCache())}, nil
	}),
	"Reload": changing(func(l *link, ctx context.Context, _ request) ([]any, error) {
		ctx, cancel := context.WithTimeout(ctx, setTimeout)
		defer cancel()
		return nil, l.config.Reload(ctx)
	}),
}

// propertyMethods implement org.freedesktop.DBus.Properties for the manager, whose properties are
// all read-only.
var propertyMethods = map[string]method{
	"Get": func(l *link, _ context.Context, r request) ([]any, error) {
		iface, isText := argument[string](r, 0)
		name, isName := argument[string](r, 1)
		if !isText || !isName {
			return nil, refuse("Expected interface and property")
		}
		value, exists := l.properties(iface)[name]
		if !exists {
			return nil, fault{errorProperty, "unknown property " + dnsmasqconf.Printable(name)}
		}
		return []any{value}, nil
	},
	"GetAll": func(l *link, _ context.Context, r request) ([]any, error) {
		iface, ok := argument[string](r, 0)
		if !ok || len(r.body) != 1 {
			return nil, refuse("Expected interface")
		}
		return []any{l.properties(iface)}, nil
	},
	"Set": func(l *link, _ context.Context, r request) ([]any, error) {
		_, isText := argument[string](r, 0)
		if name, isName := argument[string](r, 1); isText && isName {
			return nil, fault{errorReadOnly, dnsmasqconf.Printable(name) + " is read-only"}
		}
		return nil, refuse("Expected interface, property and value")
	},
}

// properties returns the properties of an interface. It is empty for interfaces other than the
// manager's.
func (l *link) properties(iface string) map[string]dbus.Variant {
	if iface != managerInterface && iface != "" {
		return map[string]dbus.Variant{}
	}
	return newProperties(l.config.Status())
}

// announce sends the properties that changed since the last announcement, except for counters that
// change with each query.
func (l *link) announce() {
	now := newProperties(l.config.Status())
	maps.DeleteFunc(now, func(name string, _ dbus.Variant) bool { return counts[name] })
	before := l.announced
	l.announced = now
	changed := maps.Clone(now)
	maps.DeleteFunc(changed, func(name string, value dbus.Variant) bool { return reflect.DeepEqual(value, before[name]) })
	if before == nil || len(changed) == 0 {
		return
	}
	err := l.conn.Emit(managerPath, "org.freedesktop.DBus.Properties.PropertiesChanged", managerInterface, changed, []string{})
	if err != nil {
		l.config.Log.Warn("D-Bus signal", "signal", "PropertiesChanged", "error", err) // the connection will be renewed
	}
}

// counts are the properties that change with each query and are not announced.
var counts = map[string]bool{"Cache": true, "Queries": true, "UpstreamStatistics": true}

// listenerProperty is a listening address, with type (sbbs).
type listenerProperty struct {
	Address  string
	UDP, TCP bool
	Error    string
}

// routeProperty is a route, with type (sssasb).
type routeProperty struct {
	Domain  string
	Kind    string // ask or local
	Source  string
	Servers []string
	InForce bool // false if a stronger source has a route for the domain
}

// upstreamProperty is a server, with type (ssts).
type upstreamProperty struct {
	Address, State string
	Since          uint64 // start of the state, in microseconds since 1970; 0 if unknown
	Error          string // last failure
}

// nameProperty is a name on the bus, with type (sbs).
type nameProperty struct {
	Name  string
	Owned bool
	Why   string
}

// newProperties returns the manager's properties for a status.
func newProperties(s control.Status) map[string]dbus.Variant {
	upstreams, statistics := upstreamProperties(s)
	p := map[string]dbus.Variant{
		"Version":            dbus.MakeVariant(s.Version),
		"Started":            dbus.MakeVariant(microseconds(s.Started)),
		"Ready":              dbus.MakeVariant(s.Ready),
		"Problems":           dbus.MakeVariant(eachText(s.Problems)),
		"Notes":              dbus.MakeVariant(eachText(s.Notes)),
		"ClusterDomain":      dbus.MakeVariant(s.Cluster.Domain),
		"Listeners":          dbus.MakeVariant(listenerProperties(s)),
		"Routes":             dbus.MakeVariant(routeProperties(s)),
		"Upstreams":          dbus.MakeVariant(upstreams),
		"UpstreamStatistics": dbus.MakeVariant(statistics),
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
		r := routeProperty{Domain: domain, Kind: "ask", Source: text(source), Servers: eachText(servers), InForce: inForce}
		if local {
			r.Kind = "local"
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

// upstreamProperties returns the servers of all routes without duplicates, and their counters.
func upstreamProperties(s control.Status) (all []upstreamProperty, statistics map[string]map[string]uint64) {
	all, statistics = []upstreamProperty{}, map[string]map[string]uint64{}
	seen := map[string]bool{}
	for _, route := range s.Routes {
		for _, server := range route.Servers {
			if seen[server.Address] {
				continue
			}
			seen[server.Address] = true
			all = append(all, upstreamProperty{text(server.Address), server.State, microseconds(server.Since), text(server.Error)})
			statistics[text(server.Address)] = map[string]uint64{
				"queries": server.Queries, "failures": server.Failures, "refusals": server.Refusals, "nxdomain": server.NXDomain,
				"retries": server.Retries, "rtt-microseconds": uint64(server.RTT.Microseconds()),
			}
		}
	}
	return all, statistics
}

// text makes s a valid D-Bus string (D-Bus Specification, "Basic types"). godbus drops a whole
// message with an invalid string, and the name of a file, an interface or a certificate may contain
// any bytes.
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
