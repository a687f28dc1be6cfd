package nm

import (
	"context"
	"errors"
	"fmt"

	gonm "github.com/Wifx/gonetworkmanager/v3"
	"github.com/godbus/dbus/v5"

	"github.com/node-dns/node-dns/internal/sys/dbusconn"
)

// maxAnswers bounds how many bytes one Client reads. A Snapshot of 64 interfaces needs less than 1
// MiB.
const maxAnswers = 8 << 20

// getAll reads all properties of an interface in one round trip (D-Bus
// Specification, "org.freedesktop.DBus.Properties").
const getAll = "org.freedesktop.DBus.Properties.GetAll"

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

// A query is a GetAll in progress. The zero query has no answer.
type query struct {
	done chan *dbus.Call
}

// ask starts a GetAll without waiting, so that several calls need one round trip. The call never
// starts NetworkManager on a host where it is off.
//
// The request is a few hundred bytes. A socket buffers much more, so writing cannot block.
func (c *Client) ask(ctx context.Context, path dbus.ObjectPath, iface string) query {
	object := c.conn.Object(gonm.NetworkManagerInterface, path)
	call := object.GoWithContext(ctx, getAll, dbus.FlagNoAutoStart, make(chan *dbus.Call, 1), iface)
	return query{done: call.Done}
}

// answer waits for the properties until the context of ask ends: a NetworkManager that was stopped
// by SIGSTOP never answers. gonetworkmanager's own getters then wait forever (3.2.0).
func (q query) answer(ctx context.Context) (properties, error) {
	if q.done == nil {
		return nil, nil
	}
	call := <-q.done
	if err := asError(ctx, call.Err); err != nil {
		return nil, err
	}
	// Store would copy the map, which costs a twentieth of a hook's run.
	if len(call.Body) == 1 {
		if p, ok := call.Body[0].(map[string]dbus.Variant); ok {
			return p, nil
		}
	}
	return nil, fmt.Errorf("%w: GetAll returned %d values, want a dictionary", ErrAnswer, len(call.Body))
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
