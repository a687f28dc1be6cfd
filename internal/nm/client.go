package nm

import (
	"context"
	"errors"
	"fmt"
	"strings"

	gonm "github.com/Wifx/gonetworkmanager/v3"
	"github.com/godbus/dbus/v5"

	"github.com/node-dns/node-dns/internal/sys/dbusconn"
)

// maxAnswers bounds how many bytes one Client reads. A Snapshot of 64 interfaces needs less than 1
// MiB.
const maxAnswers = 8 << 20

// Methods of org.freedesktop.DBus.Properties (D-Bus Specification, "Standard Interfaces").
const (
	getProperty = "org.freedesktop.DBus.Properties.Get"
	getAll      = "org.freedesktop.DBus.Properties.GetAll"
)

// A Client queries NetworkManager over its own connection to the system bus. Except for Reload and
// WriteResolvConf it only reads, which needs no privileges. Its methods may be called concurrently.
//
// The caller must close it. It is meant for a few Snapshots and reads at most 8 MiB.
type Client struct {
	conn *dbus.Conn
}

// Dial connects to the system bus: DBUS_SYSTEM_BUS_ADDRESS if that is set, else the default socket.
// It returns when ctx ends, even if the bus does not answer.
//
// Errors match ErrNoBus if there is no bus or it refuses the connection, and ctx.Err() if ctx
// ended. Only the first Snapshot shows whether NetworkManager runs.
func Dial(ctx context.Context) (*Client, error) {
	conn, err := dbusconn.Dial(ctx, dbusconn.Config{Limit: maxAnswers})
	if err != nil {
		return nil, err
	}
	return &Client{conn: conn}, nil
}

// Close closes the connection. Calls in progress end with ErrNoBus. A second Close does nothing.
func (c *Client) Close() error {
	if err := c.conn.Close(); err != nil {
		return fmt.Errorf("closing the connection to the system bus: %w", err)
	}
	return nil
}

// A query is a call in progress. The zero query has no answer.
type query struct {
	done chan *dbus.Call
}

// ask starts a call without waiting, so that several calls need one round trip. The call never
// starts NetworkManager on a host where it is off.
//
// The request is a few hundred bytes. A socket buffers much more, so writing cannot block.
func (c *Client) ask(ctx context.Context, path dbus.ObjectPath, method string, args ...any) query {
	object := c.conn.Object(gonm.NetworkManagerInterface, path)
	call := object.GoWithContext(ctx, method, dbus.FlagNoAutoStart, make(chan *dbus.Call, 1), args...)
	return query{done: call.Done}
}

// askProperty starts reading one property, named as in gonetworkmanager. If path is
// no object, the query has no answer.
func (c *Client) askProperty(ctx context.Context, path dbus.ObjectPath, name string) query {
	if !isObject(path) {
		return query{}
	}
	dot := strings.LastIndexByte(name, '.')
	return c.ask(ctx, path, getProperty, name[:dot], name[dot+1:])
}

// isObject reports whether a path from NetworkManager names an object. "/" means no
// object.
func isObject(path dbus.ObjectPath) bool { return path.IsValid() && path != "/" }

// answer waits for the returned values until the context of ask ends: a NetworkManager that was
// stopped by SIGSTOP never answers. gonetworkmanager's own getters then wait forever (3.2.0).
func (q query) answer(ctx context.Context) ([]any, error) {
	if q.done == nil {
		return nil, nil
	}
	call := <-q.done
	return call.Body, asError(ctx, call.Err)
}

// answerAll is answer for getAll.
func (q query) answerAll(ctx context.Context) (properties, error) {
	body, err := q.answer(ctx)
	if err != nil {
		return nil, err
	}
	// Store would copy the map, which costs a twentieth of a hook's run.
	if len(body) == 1 {
		if p, ok := body[0].(map[string]dbus.Variant); ok {
			return p, nil
		}
	}
	return nil, fmt.Errorf("%w: GetAll returned %d values, want a dictionary", ErrAnswer, len(body))
}

// A round is a list of calls in progress, so that they need one round trip.
type round []pending

type pending struct {
	query
	// take gets the returned values. They are nil if NetworkManager refused the call, because the
	// object disappeared or lacks the property.
	take func(body []any)
}

func (r *round) add(q query, take func(body []any)) { *r = append(*r, pending{q, take}) }

// wait waits for all answers, or until the context of ask ends.
func (r round) wait(ctx context.Context) error {
	for _, p := range r {
		body, err := p.answer(ctx)
		var refused dbus.Error
		if err != nil && (errors.Is(err, ErrNotRunning) || !errors.As(err, &refused)) {
			return err
		}
		if err != nil {
			body = nil
		}
		p.take(body)
	}
	return nil
}

// The errors of a question to NetworkManager, besides those of the context. After any of them, the
// caller must find the nameservers elsewhere.
var (
	// ErrNoBus means that there is no system bus.
	ErrNoBus = dbusconn.ErrNoBus
	// ErrNotRunning means that NetworkManager is not on the bus, or left it before it answered.
	ErrNotRunning = errors.New("NetworkManager is not running")
	// ErrAnswer means that the answer is an error, has an unknown type, or exceeds a limit.
	ErrAnswer = errors.New("unexpected answer over D-Bus")
)

// asError classifies the error of a call to NetworkManager.
func asError(ctx context.Context, err error) error {
	var remote dbus.Error
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, dbusconn.ErrTooLong):
		return fmt.Errorf("%w: %w", ErrAnswer, err)
	case !errors.As(err, &remote):
		return fmt.Errorf("%w: %w", ErrNoBus, err) // the connection ended during the call
	}
	switch remote.Name {
	case "org.freedesktop.DBus.Error.ServiceUnknown",
		"org.freedesktop.DBus.Error.NameHasNoOwner",
		"org.freedesktop.DBus.Error.NoReply": // the bus reports that the peer left before it answered
		return fmt.Errorf("%w: %w", ErrNotRunning, err)
	}
	return fmt.Errorf("%w: %s: %w", ErrAnswer, printable(remote.Name, maxName), err)
}
