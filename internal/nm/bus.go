package nm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/godbus/dbus/v5"
)

// How asking NetworkManager fails, besides by the context's end. All mean the same
// to who needs nameservers: look elsewhere.
var (
	// ErrNoBus means that there is no system bus to talk to.
	ErrNoBus = errors.New("no system bus")
	// ErrNotRunning means that NetworkManager is not on the bus, or left it
	// without an answer.
	ErrNotRunning = errors.New("NetworkManager is not running")
	// ErrAnswer means that an answer is not what NetworkManager is known to say:
	// an error, another type, or beyond a bound.
	ErrAnswer = errors.New("unexpected answer over D-Bus")
)

// busPaths are where the system bus listens when DBUS_SYSTEM_BUS_ADDRESS does not
// say (D-Bus Specification, "Well-known message bus instances").
var busPaths = []string{"/run/dbus/system_bus_socket", "/var/run/dbus/system_bus_socket"}

// dialBus connects to the system bus and authenticates, within ctx. Godbus's own
// ConnectSystemBus has no deadline: a bus that was stopped by a signal accepts
// through its backlog and then never answers.
//
// The connection ends when more than limit bytes were read from it.
func dialBus(ctx context.Context, limit int64, options ...dbus.ConnOption) (*dbus.Conn, error) {
	socket, err := dialSocket(ctx)
	if err != nil {
		return nil, err
	}
	// A context's end that has no deadline of its own, such as a signal's, must
	// end the reads of the handshake too.
	stop := context.AfterFunc(ctx, func() { socket.SetDeadline(time.Unix(1, 0)) })
	conn, err := handshake(socket, limit, options)
	if !stop() && err == nil {
		conn.Close()
		err = ctx.Err()
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, fmt.Errorf("connecting to the system bus: %w", ctx.Err())
	case err != nil:
		return nil, fmt.Errorf("connecting to the system bus: %w: %w", ErrNoBus, err)
	}
	return conn, nil
}

// handshake owns the socket. Through dbus.NewConn it does not ask for the passing
// of file descriptors, which would be one more round trip.
func handshake(socket net.Conn, limit int64, options []dbus.ConnOption) (*dbus.Conn, error) {
	conn, err := dbus.NewConn(&boundedSocket{Conn: socket, left: limit}, options...)
	if err != nil {
		socket.Close()
		return nil, err
	}
	if err := conn.Auth(nil); err != nil {
		conn.Close()
		return nil, err
	}
	if err := conn.Hello(); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

func dialSocket(ctx context.Context) (net.Conn, error) {
	names, err := socketNames(os.Getenv("DBUS_SYSTEM_BUS_ADDRESS"))
	if err != nil {
		return nil, err
	}
	var dialer net.Dialer
	for _, name := range names {
		socket, dialErr := dialer.DialContext(ctx, "unix", name)
		if dialErr == nil {
			return socket, nil
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("connecting to the system bus: %w", ctx.Err())
		}
		err = errors.Join(err, dialErr)
	}
	return nil, fmt.Errorf("connecting to the system bus: %w: %w", ErrNoBus, err)
}

// socketNames returns the unix sockets of a bus address, in order; an abstract one
// with "@" in front, as package net has it. Other transports are for other hosts.
func socketNames(address string) ([]string, error) {
	if address == "" {
		return busPaths, nil
	}
	var names []string
	for one := range strings.SplitSeq(address, ";") {
		keys, ok := strings.CutPrefix(one, "unix:")
		if !ok {
			continue
		}
		for pair := range strings.SplitSeq(keys, ",") {
			key, value, _ := strings.Cut(pair, "=")
			value, err := dbus.UnescapeBusAddressValue(value)
			switch {
			case err != nil || value == "":
			case key == "path":
				names = append(names, value)
			case key == "abstract":
				names = append(names, "@"+value)
			}
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%w: DBUS_SYSTEM_BUS_ADDRESS %q has no unix socket", ErrNoBus, address)
	}
	return names, nil
}

// A boundedSocket ends with ErrAnswer when more than the bound was read from it,
// which is godbus's only bound short of 128 MiB a message.
type boundedSocket struct {
	net.Conn
	left int64
}

func (b *boundedSocket) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("%w: too long", ErrAnswer)
	}
	n, err := b.Conn.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

// asError classifies what a call to NetworkManager ended with.
func asError(ctx context.Context, err error) error {
	var remote dbus.Error
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, ErrAnswer):
		return err
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
