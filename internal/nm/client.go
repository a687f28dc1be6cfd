package nm

import (
	"context"
	"fmt"

	gonm "github.com/Wifx/gonetworkmanager/v3"
	"github.com/godbus/dbus/v5"

	"github.com/node-dns/node-dns/internal/sys/dbusconn"
)

// maxAnswers bounds what one Client reads. A Snapshot of 64 interfaces is below
// 1 MiB.
const maxAnswers = 8 << 20

// getAll reads all properties of an interface in one round trip (D-Bus
// Specification, "org.freedesktop.DBus.Properties").
const getAll = "org.freedesktop.DBus.Properties.GetAll"

// A Client asks NetworkManager. It has a connection to the system bus of its own.
// It reads only, but for Reload, and reading needs no privileges. Its methods may be
// called concurrently.
//
// Close it when done. It is made for a few Snapshots: it reads at most 8 MiB.
type Client struct {
	conn *dbus.Conn
}

// Dial connects to the system bus: DBUS_SYSTEM_BUS_ADDRESS when that is set, else
// the well-known socket. It ends with ctx even when the bus does not answer.
//
// Errors match ErrNoBus when there is no bus, or it refuses; ctx.Err() when time
// ran out. Whether NetworkManager runs is seen by the first Snapshot only.
func Dial(ctx context.Context) (*Client, error) {
	conn, err := dbusconn.Dial(ctx, dbusconn.Config{Limit: maxAnswers})
	if err != nil {
		return nil, err
	}
	return &Client{conn: conn}, nil
}

// Close closes the connection; calls under way end with ErrNoBus. A second Close
// does nothing.
func (c *Client) Close() error {
	if err := c.conn.Close(); err != nil {
		return fmt.Errorf("closing the connection to the system bus: %w", err)
	}
	return nil
}

// A query is a GetAll under way. The zero query has no answer.
type query struct {
	done chan *dbus.Call
}

// ask starts a GetAll, so that several need one round trip. NetworkManager is never
// started by it: a host on which it is off stays so.
//
// The request is a few hundred bytes, far below what a socket takes without a
// reader, so writing it cannot block.
func (c *Client) ask(ctx context.Context, path dbus.ObjectPath, iface string) query {
	object := c.conn.Object(gonm.NetworkManagerInterface, path)
	call := object.GoWithContext(ctx, getAll, dbus.FlagNoAutoStart, make(chan *dbus.Call, 1), iface)
	return query{done: call.Done}
}

// answer waits for the properties. It ends with the context that ask was given: an
// answer may never come from a NetworkManager that was stopped by SIGSTOP, and
// gonetworkmanager's getters then wait for ever (3.2.0).
func (q query) answer(ctx context.Context) (properties, error) {
	if q.done == nil {
		return nil, nil
	}
	call := <-q.done
	if err := asError(ctx, call.Err); err != nil {
		return nil, err
	}
	var p map[string]dbus.Variant
	if err := call.Store(&p); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAnswer, err)
	}
	return p, nil
}
