package dbusapi

import (
	"context"
	"maps"
	"reflect"

	"github.com/godbus/dbus/v5"

	"github.com/node-dns/node-dns/internal/dnsmasqconf"
)

// managerMethods are those of org.node_dns.Manager.
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

// propertyMethods are org.freedesktop.DBus.Properties of the manager. All its properties are read-only.
var propertyMethods = map[string]method{
	"Get": func(l *link, _ context.Context, r request) ([]any, error) {
		iface, name, ok := twoTexts(r.body)
		if !ok {
			return nil, refuse("Expected interface and property")
		}
		value, exists := l.properties(iface)[name]
		if !exists {
			return nil, fault{errorProperty, "no property " + dnsmasqconf.Printable(name)}
		}
		return []any{value}, nil
	},
	"GetAll": func(l *link, _ context.Context, r request) ([]any, error) {
		iface, ok := "", false
		if len(r.body) == 1 {
			iface, ok = r.body[0].(string)
		}
		if !ok {
			return nil, refuse("Expected interface")
		}
		return []any{map[string]dbus.Variant(l.properties(iface))}, nil
	},
	"Set": func(l *link, _ context.Context, r request) ([]any, error) {
		if _, name, ok := twoTexts(r.body); ok {
			return nil, fault{errorReadOnly, dnsmasqconf.Printable(name) + " is read-only"}
		}
		return nil, refuse("Expected interface, property and value")
	},
}

func twoTexts(body []any) (first, second string, ok bool) {
	if len(body) < 2 {
		return "", "", false
	}
	first, ok = body[0].(string)
	if ok {
		second, ok = body[1].(string)
	}
	return first, second, ok
}

// properties are values by name.
type properties map[string]dbus.Variant

// properties of the interface; empty for another than the manager's.
func (l *link) properties(iface string) properties {
	if iface != managerInterface && iface != "" {
		return properties{}
	}
	return newProperties(l.config.Status())
}

// announce tells who listens what has changed since it was told last, of the properties that say so (all but numbers that
// change with each query).
func (l *link) announce() {
	now := newProperties(l.config.Status())
	maps.DeleteFunc(now, func(name string, _ dbus.Variant) bool { return counts[name] })
	before := l.announced
	l.announced = now
	if before == nil {
		return
	}
	changed := map[string]dbus.Variant{}
	for name, value := range now {
		if !reflect.DeepEqual(value, before[name]) {
			changed[name] = value
		}
	}
	if len(changed) == 0 {
		return
	}
	err := l.conn.Emit(managerPath, "org.freedesktop.DBus.Properties.PropertiesChanged", managerInterface, changed, []string{})
	if err != nil {
		l.config.Log.Warn("D-Bus signal", "signal", "PropertiesChanged", "error", err) // the connection will be made again
	}
}
