package bus

import (
	"errors"
	"sync/atomic"

	"github.com/godbus/dbus/v5"
)

// A queue keeps the calls in the order in which they came. Godbus starts a goroutine for each, so that of two calls of one
// program the second might be heeded first.
type queue struct {
	calls chan *dbus.Message
	conn  atomic.Pointer[dbus.Conn] // nil until the connection has been made
}

func newQueue() *queue { return &queue{calls: make(chan *dbus.Message, maxCalls)} }

// take is called by godbus for each message that comes in, before it does anything about it. It does nothing about messages of
// a type that it does not know.
func (q *queue) take(m *dbus.Message) {
	if m.Type != dbus.TypeMethodCall {
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
		replyError(conn, &call, dbus.NewError(errorLimits, []any{"too many calls wait to be answered"}))
	}
}

// The names of errors.
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

// reply answers a call, unless its caller wants none.
func reply(conn *dbus.Conn, call *dbus.Message, body ...any) {
	send(conn, call, dbus.TypeMethodReply, nil, body)
}

func replyError(conn *dbus.Conn, call *dbus.Message, err *dbus.Error) {
	send(conn, call, dbus.TypeError, map[dbus.HeaderField]dbus.Variant{dbus.FieldErrorName: dbus.MakeVariant(err.Name)}, err.Body)
}

func send(conn *dbus.Conn, call *dbus.Message, kind dbus.Type, headers map[dbus.HeaderField]dbus.Variant, body []any) {
	if call.Flags&dbus.FlagNoReplyExpected != 0 {
		return
	}
	m := &dbus.Message{Type: kind, Headers: map[dbus.HeaderField]dbus.Variant{
		dbus.FieldReplySerial: dbus.MakeVariant(call.Serial()),
	}, Body: body}
	for field, value := range headers {
		m.Headers[field] = value
	}
	if sender, ok := call.Headers[dbus.FieldSender]; ok {
		m.Headers[dbus.FieldDestination] = sender
	}
	if len(body) > 0 {
		m.Headers[dbus.FieldSignature] = dbus.MakeVariant(dbus.SignatureOf(body...))
	}
	conn.Send(m, nil) // one whose caller or whose bus has gone is lost, as it must be
}

// isRemote reports whether an error is the bus's answer, not the lack of one.
func isRemote(err error) bool {
	var remote dbus.Error
	return errors.As(err, &remote)
}
