package nm

import (
	"context"
	"errors"
	"fmt"

	"github.com/godbus/dbus/v5"

	"github.com/node-dns/node-dns/internal/sys/dbusconn"
)

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
