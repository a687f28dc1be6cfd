package dbusapi

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/godbus/dbus/v5"

	"github.com/node-dns/node-dns/internal/dnsmasqconf"
	"github.com/node-dns/node-dns/internal/sys/journal"
)

// request is the decoded form of a call.
type request struct {
	path, iface, member, signature string
	sender                         string // unique name of the sender
	destination                    string // one of our names; empty for a broadcast signal
	body                           []any
}

func newRequest(m *dbus.Message) request {
	text := func(field dbus.HeaderField) string {
		switch value := m.Headers[field].Value().(type) {
		case string:
			return value
		case dbus.ObjectPath:
			return string(value)
		case dbus.Signature:
			return value.String()
		}
		return ""
	}
	return request{
		path: text(dbus.FieldPath), iface: text(dbus.FieldInterface), member: text(dbus.FieldMember),
		signature: text(dbus.FieldSignature), sender: text(dbus.FieldSender),
		destination: text(dbus.FieldDestination), body: m.Body,
	}
}

// argument returns the argument at an index. ok is false if it is missing or has another type.
func argument[T any](r request, at int) (value T, ok bool) {
	if at < len(r.body) {
		value, ok = r.body[at].(T)
	}
	return value, ok
}

// method handles a request and returns the values of the reply.
type method func(l *link, ctx context.Context, r request) ([]any, error)

// fault is an error with a D-Bus error name.
type fault struct {
	name string
	text string
}

func (f fault) Error() string { return f.text }

// unknown returns an error with the text of libdbus, which callers of dnsmasq expect.
func (r request) unknown() error {
	return fault{errorMethod, fmt.Sprintf("Method \"%s\" with signature \"%s\" on interface \"%s\" doesn't exist\n",
		r.member, r.signature, r.iface)}
}

func (l *link) answer(ctx context.Context, call *dbus.Message) {
	r := newRequest(call)
	body, err := l.dispatch(ctx, r)
	if err == nil {
		reply(l.conn, call, body...)
		return
	}
	f := faultOf(err)
	if !wantsReply(call) || f.name == errorAccess {
		l.complain(r, err)
	}
	replyError(l.conn, call, f)
}

// faultOf converts err to an error with a D-Bus name.
func faultOf(err error) fault {
	var named fault
	var refused dnsmasqconf.Refusal
	switch {
	case errors.As(err, &named):
		return named
	case errors.Is(err, dnsmasqconf.ErrTooMany):
		return fault{errorLimits, err.Error()}
	case errors.As(err, &refused):
		return fault{errorArguments, refused.Error()}
	}
	return fault{errorFailed, dnsmasqconf.Printable(err.Error())}
}

// complain logs a call that was refused, or that failed without getting a reply. It logs only one
// call per complainEvery, because every user that another policy admits can send many.
func (l *link) complain(r request, err error) {
	if now := time.Now(); l.complained.IsZero() || now.Sub(l.complained) >= complainEvery {
		l.config.Log.Warn("D-Bus call failed", "member", dnsmasqconf.Printable(r.member), "sender", r.sender, "error", err, "unlogged", l.unlogged)
		l.complained, l.unlogged = now, 0
		return
	}
	l.unlogged++
}

// dispatch finds and calls the method of a request. It returns an error if the method panics.
func (l *link) dispatch(ctx context.Context, r request) (body []any, err error) {
	defer func() {
		if p := recover(); p != nil {
			l.config.Panics.Caught(l.config.Log, "task panicked", journal.TaskPanic, p, "task", "D-Bus", "member", r.member)
			err = fault{errorFailed, "internal error"}
		}
	}()
	switch {
	case r.iface == "org.freedesktop.DBus.Peer":
		return peer(r)
	case r.member == "Introspect" && (r.iface == "org.freedesktop.DBus.Introspectable" || r.iface == ""):
		return []any{introspect(r.path)}, nil
	case r.path == dnsmasqPath:
		// The interface does not matter: dnsmasq looks only at the method, and OpenShift's SDN
		// relies on that.
		return l.call(ctx, r, dnsmasqMethods)
	case r.path == managerPath && r.iface == "org.freedesktop.DBus.Properties":
		return l.call(ctx, r, propertyMethods)
	case r.path == managerPath && (r.iface == managerInterface || r.iface == ""):
		return l.call(ctx, r, managerMethods)
	}
	return nil, r.unknown()
}

func (l *link) call(ctx context.Context, r request, methods map[string]method) ([]any, error) {
	m := methods[r.member]
	if m == nil || r.path == dnsmasqPath && strings.HasPrefix(r.iface, "org.freedesktop.DBus.") {
		return nil, r.unknown()
	}
	return m(l, ctx, r)
}

// peer implements the interface that every connection has (D-Bus Specification,
// "org.freedesktop.DBus.Peer").
func peer(r request) ([]any, error) {
	switch r.member {
	case "Ping":
		return nil, nil
	case "GetMachineId":
		for _, path := range []string{"/etc/machine-id", "/var/lib/dbus/machine-id"} {
			if id, err := os.ReadFile(path); err == nil {
				return []any{strings.TrimSpace(string(id))}, nil
			}
		}
		return nil, fault{errorFailed, "no machine-id"}
	}
	return nil, r.unknown()
}

// dnsmasqXML is the introspection data of dnsmasq 2.90, with the signal Up added.
//
//go:embed dnsmasq.xml
var dnsmasqXML string

//go:embed manager.xml
var managerXML string

const introspectHead = `<!DOCTYPE node PUBLIC "-//freedesktop//DTD D-BUS Object Introspection 1.0//EN"
"http://www.freedesktop.org/standards/dbus/1.0/introspect.dtd">
`

// introspect describes the object at path: one of ours, or a parent node.
func introspect(path string) string {
	switch path {
	case dnsmasqPath:
		return dnsmasqXML
	case managerPath:
		return managerXML
	}
	children := ""
	for _, object := range []string{dnsmasqPath, managerPath} {
		if below, ok := strings.CutPrefix(object, strings.TrimSuffix(path, "/")+"/"); ok {
			name, _, _ := strings.Cut(below, "/")
			children += fmt.Sprintf("  <node name=%q/>\n", name)
		}
	}
	return introspectHead + "<node>\n" + children + "</node>\n"
}
