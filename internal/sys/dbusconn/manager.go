package dbusconn

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/godbus/dbus/v5"
)

// ManagerSocket is where the manager listens for root (src/core/dbus.c).
const ManagerSocket = "/run/systemd/private"

// Job is what systemd is about to do with a unit (org.freedesktop.systemd1(5), JobType).
type Job string

const (
	NoJob   Job = ""
	Start   Job = "start"
	Stop    Job = "stop"    // a shutdown's too
	Restart Job = "restart" // while the unit stops; then it is a start
)

// Manager is a connection to systemd. It is safe for concurrent use.
type Manager struct{ conn *dbus.Conn }

// DialManager connects to the manager that listens on socket, within ctx.
func DialManager(ctx context.Context, socket string) (*Manager, error) {
	conn, err := Dial(ctx, Config{Address: "unix:path=" + dbus.EscapeBusAddressValue(socket), Peer: true, Limit: maxRead})
	if err != nil {
		return nil, fmt.Errorf("asking systemd: %w", err)
	}
	m := &Manager{conn}
	if err := m.wake(ctx); err != nil {
		m.Close()
		return nil, fmt.Errorf("asking systemd: %w", err)
	}
	return m, nil
}

// ManagerOnBus connects to the manager over the system bus, within ctx, as everybody may who only asks.
func ManagerOnBus(ctx context.Context) (*Manager, error) {
	conn, err := Dial(ctx, Config{Limit: maxRead})
	if err != nil {
		return nil, fmt.Errorf("asking systemd: %w", err)
	}
	return &Manager{conn}, nil
}

// poke is how soon systemd is sent another byte.
const poke = 5 * time.Millisecond

// wake returns when systemd has answered. What it reads together with the last word of the handshake, systemd 252 leaves in its buffer
// until more comes (bus_socket_auth_verify_server): of 300 first calls that followed at once 123 were never answered.
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

// maxRead bounds, in bytes, what is read: some small properties.
const maxRead = 1 << 20

// Close ends the connection.
func (m *Manager) Close() error { return m.conn.Close() }

const (
	name       = "org.freedesktop.systemd1"
	managerAt  = dbus.ObjectPath("/org/freedesktop/systemd1")
	properties = "org.freedesktop.DBus.Properties.Get"
	ping       = "org.freedesktop.DBus.Peer.Ping"
)

// Job is what systemd is about to do with a unit that is loaded.
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
		return NoJob, nil // it ended between the two questions
	}
	return kind, wrap(err, unit)
}

// Invocation returns the ID of a unit's last start, as systemd.exec(5), INVOCATION_ID, writes it; "": it has not been started since systemd
// loaded it.
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

// Start has systemd start a unit, and does not wait for it. One that is being started already is started once.
func (m *Manager) Start(ctx context.Context, unit string) error {
	if err := m.call(ctx, managerAt, name+".Manager.StartUnit", unit, "replace").Err; err != nil {
		return fmt.Errorf("starting %s: %w", unit, err)
	}
	return nil
}

// unit returns the object of a unit that is loaded.
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
