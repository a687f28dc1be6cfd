package dbusapi

import (
	"errors"
	"strings"
	"sync/atomic"

	"github.com/godbus/dbus/v5"
)

// queue keeps the calls in the order of arrival. godbus starts a goroutine for each, so the second
// of two calls of a program might be handled first.
type queue struct {
	calls    chan *dbus.Message
	conn     atomic.Pointer[dbus.Conn] // nil until the connection exists
	arrivals arrivals
}

// take is called by godbus for each incoming message before godbus handles it. To keep a message
// from godbus, take sets an unknown type.
func (q *queue) take(m *dbus.Message) {
	switch r := newRequest(m); {
	case m.Type == dbus.TypeMethodCall, m.Type == dbus.TypeSignal && r.isOrder():
	case m.Type != dbus.TypeSignal:
		return // replies, which the bus delivers to the original caller
	case r.sender != busName:
		m.Type = 0
		return
	default:
		name := r.arrival()
		if name == "" {
			return
		}
		m.Type = 0
		if conn := q.conn.Load(); conn != nil {
			q.arrivals.ask(conn, name)
		}
		return
	}
	call := *m
	m.Type = 0
	select {
	case q.calls <- &call:
		return
	default:
	}
	if conn := q.conn.Load(); conn != nil {
		replyError(conn, &call, fault{errorLimits, "too many pending calls"})
	}
}

// isOrder reports whether a signal is a call except for its type: it is addressed to us alone and
// names one of our objects. dnsmasq looks at the member of a message and not at its type, and
// dbus-send sends a signal by default.
func (r request) isOrder() bool {
	return r.destination != "" && (r.path == dnsmasqPath || r.path == managerPath)
}

// arrival returns the new unique name that a signal of the bus announces (NameOwnerChanged), or ""
// for any other signal.
func (r request) arrival() string {
	if r.member != "NameOwnerChanged" || len(r.body) != 3 {
		return ""
	}
	if name, _ := r.body[0].(string); r.body[1] == "" && strings.HasPrefix(name, ":") {
		return name
	}
	return ""
}

const (
	errorArguments = "org.freedesktop.DBus.Error.InvalidArgs"
	errorMethod    = "org.freedesktop.DBus.Error.UnknownMethod"
	errorLimits    = "org.freedesktop.DBus.Error.LimitsExceeded"
	errorAccess    = "org.freedesktop.DBus.Error.AccessDenied"
	errorSupport   = "org.freedesktop.DBus.Error.NotSupported"
	errorFailed    = "org.freedesktop.DBus.Error.Failed"
	errorProperty  = "org.freedesktop.DBus.Error.UnknownProperty"
	errorReadOnly  = "org.freedesktop.DBus.Error.PropertyReadOnly"
)

func wantsReply(call *dbus.Message) bool {
	return call.Type == dbus.TypeMethodCall && call.Flags&dbus.FlagNoReplyExpected == 0
}

// reply answers a call unless its caller wants no reply.
func reply(conn *dbus.Conn, call *dbus.Message, body ...any) {
	send(conn, call, &dbus.Message{Type: dbus.TypeMethodReply, Headers: map[dbus.HeaderField]dbus.Variant{}, Body: body})
}

func replyError(conn *dbus.Conn, call *dbus.Message, f fault) {
	headers := map[dbus.HeaderField]dbus.Variant{dbus.FieldErrorName: dbus.MakeVariant(f.name)}
	send(conn, call, &dbus.Message{Type: dbus.TypeError, Headers: headers, Body: []any{f.text}})
}

func send(conn *dbus.Conn, call, m *dbus.Message) {
	if !wantsReply(call) {
		return
	}
	m.Headers[dbus.FieldReplySerial] = dbus.MakeVariant(call.Serial())
	if sender, ok := call.Headers[dbus.FieldSender]; ok {
		m.Headers[dbus.FieldDestination] = sender
	}
	if len(m.Body) > 0 {
		m.Headers[dbus.FieldSignature] = dbus.MakeVariant(dbus.SignatureOf(m.Body...))
	}
	conn.Send(m, nil) // lost if the caller or the bus has gone, which is fine
}

// isRemote reports whether an error is an answer of the bus, not the lack of one.
func isRemote(err error) bool {
	var remote dbus.Error
	return errors.As(err, &remote)
}
