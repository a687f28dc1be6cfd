package dbusconn

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/godbus/dbus/v5"
)

// ManagerSocket is the manager's socket for root (src/core/dbus.c).
const ManagerSocket = "/run/systemd/private"

// Job is the pending job of a unit (org.freedesktop.systemd1(5), JobType).
type Job string

const (
	NoJob   Job = ""
	Start   Job = "start"
	Stop    Job = "stop"    // also during a shutdown
	Restart Job = "restart" // while the unit stops; then the job becomes a start
)

// Manager is a connection to systemd. It is safe for concurrent use.
type Manager struct{ conn *dbus.Conn }

// DialManager connects to the manager that listens on socket, until ctx ends.
func DialManager(ctx context.Context, socket string) (*Manager, error) {
	conn, err := Dial(ctx, Config{Address: "unix:path=" + dbus.EscapeBusAddressValue(socket), Peer: true, Limit: maxRead})
	if err != nil {
		return nil, fmt.Errorf("connecting to systemd: %w", err)
	}
	m := &Manager{conn}
	if err := m.wake(ctx); err != nil {
		m.Close()
		return nil, fmt.Errorf("connecting to systemd: %w", err)
	}
	return m, nil
}

// managerOnBus connects to the manager over the system bus, until ctx ends. Any user may query it
// there.
func managerOnBus(ctx context.Context) (*Manager, error) {
	conn, err := Dial(ctx, Config{Limit: maxRead})
	if err != nil {
		return nil, fmt.Errorf("connecting to systemd: %w", err)
	}
	return &Manager{conn}, nil
}

// AskOnBus calls ask with a manager on the bus. It tries again as Retry does, first with this
// timeout.
func AskOnBus(ctx context.Context, first time.Duration, ask func(ctx context.Context, m *Manager) error) error {
	return Retry(ctx, first, 0, func(ctx context.Context) error {
		m, err := managerOnBus(ctx)
		if err != nil {
			return err
		}
		defer m.Close()
		return ask(ctx, m)
	})
}

// poke is the interval at which wake sends another byte to systemd.
const poke = 5 * time.Millisecond

// wake returns when systemd has answered. If systemd 252 reads data together with the last message
// of the handshake, it leaves the data in its buffer until more comes
// (bus_socket_auth_verify_server): of 300 calls right after the handshake, 123 were never answered.
func (m *Manager) wake(ctx context.Context) error {
	answered := make(chan *dbus.Call, 1)
	m.conn.Object(name, managerAt).GoWithContext(ctx, ping, 0, answered)
	again := time.NewTicker(poke)
	defer again.Stop()
	for {
		select {
		case call := <-answered:
			return call.Err
		case <-again.C:
			m.conn.Object(name, managerAt).GoWithContext(ctx, ping, dbus.FlagNoReplyExpected, nil)
		}
	}
}

// maxRead is the maximum number of bytes read. The properties are small.
const maxRead = 1 << 20

// Close closes the connection.
func (m *Manager) Close() error { return m.conn.Close() }

const (
	name       = "org.freedesktop.systemd1"
	managerAt  = dbus.ObjectPath("/org/freedesktop/systemd1")
	properties = "org.freedesktop.DBus.Properties.Get"
	ping       = "org.freedesktop.DBus.Peer.Ping"
)

// Job returns the pending job of a unit, which must be loaded.
func (m *Manager) Job(ctx context.Context, unit string) (Job, error) {
	path, err := m.unit(ctx, unit)
	if err != nil {
		return NoJob, err
	}
	var job struct {
		ID   uint32
		Path dbus.ObjectPath
	}
	if err := m.get(ctx, path, name+".Unit", "Job", &job); err != nil || job.ID == 0 {
		return NoJob, wrap(err, unit)
	}
	var kind Job
	err = m.get(ctx, job.Path, name+".Job", "JobType", &kind)
	var gone dbus.Error
	if errors.As(err, &gone) && gone.Name == "org.freedesktop.DBus.Error.UnknownObject" {
		return NoJob, nil // it ended between the two calls
	}
	return kind, wrap(err, unit)
}

// Invocation returns the ID of the last start of a unit in the format of INVOCATION_ID
// (systemd.exec(5)). It returns "" if the unit was not started since systemd loaded it.
func (m *Manager) Invocation(ctx context.Context, unit string) (string, error) {
	path, err := m.unit(ctx, unit)
	if err != nil {
		return "", err
	}
	var id []byte
	if err := m.get(ctx, path, name+".Unit", "InvocationID", &id); err != nil {
		return "", fmt.Errorf("asking systemd for the start of %s: %w", unit, err)
	}
	return hex.EncodeToString(id), nil
}

// Start starts a unit without waiting for it. It has no effect on a unit that is already starting.
func (m *Manager) Start(ctx context.Context, unit string) error {
	if err := m.call(ctx, managerAt, name+".Manager.StartUnit", unit, "replace").Err; err != nil {
		return fmt.Errorf("starting %s: %w", unit, err)
	}
	return nil
}

// unit returns the object of a loaded unit.
func (m *Manager) unit(ctx context.Context, unit string) (path dbus.ObjectPath, err error) {
	if err := m.call(ctx, managerAt, name+".Manager.GetUnit", unit).Store(&path); err != nil {
		return "", fmt.Errorf("asking systemd for %s: %w", unit, err)
	}
	return path, nil
}

func (m *Manager) call(ctx context.Context, path dbus.ObjectPath, method string, args ...any) *dbus.Call {
	return m.conn.Object(name, path).CallWithContext(ctx, method, 0, args...)
}

func (m *Manager) get(ctx context.Context, path dbus.ObjectPath, of, property string, value any) error {
	var variant dbus.Variant
	if err := m.call(ctx, path, properties, of, property).Store(&variant); err != nil {
		return err
	}
	return variant.Store(value)
}

func wrap(err error, unit string) error {
	if err != nil {
		return fmt.Errorf("asking systemd for the job of %s: %w", unit, err)
	}
	return nil
}
