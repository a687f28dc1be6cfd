package nm

import (
	"context"
	"errors"
	"fmt"

	"github.com/godbus/dbus/v5"

	"github.com/node-dns/node-dns/internal/sys/dbusconn"
)

// How asking NetworkManager fails, besides by the context's end. All mean the same
// to who needs nameservers: look elsewhere.
var (
	// ErrNoBus means that there is no system bus to talk to.
	ErrNoBus = dbusconn.ErrNoBus
	// ErrNotRunning means that NetworkManager is not on the bus, or left it
	// without an answer.
	ErrNotRunning = errors.New("NetworkManager is not running")
	// ErrAnswer means that an answer is not what NetworkManager is known to say:
	// an error, another type, or beyond a bound.
	ErrAnswer = errors.New("unexpected answer over D-Bus")
)

// asError classifies what a call to NetworkManager ended with.
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
		return fmt.Errorf("%w: %w", ErrNoBus, err) // the connection ended under the call
	}
	switch remote.Name {
	case "org.freedesktop.DBus.Error.ServiceUnknown",
		"org.freedesktop.DBus.Error.NameHasNoOwner",
		"org.freedesktop.DBus.Error.NoReply": // the bus's word for a peer that left before it answered
		return fmt.Errorf("%w: %w", ErrNotRunning, err)
	}
	return fmt.Errorf("%w: %s: %w", ErrAnswer, printable(remote.Name, maxName), err)
}
