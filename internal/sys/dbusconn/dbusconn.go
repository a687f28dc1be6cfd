// Package dbusconn connects to the system bus, or to another one at an address, within a deadline, and asks systemd's manager about units
// and their jobs.
//
// It is apart from nm and dbusapi, which talk to NetworkManager and to our own callers, and from supervise, where the daemon tells the
// manager of itself. The privileged half speaks over the manager's own socket, as systemctl(1) does for root, so that it works without
// a bus: at the end of a shutdown, and while the bus restarts. The daemon, to which that socket is closed, has ManagerOnBus.
package dbusconn

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"strings"
	"time"

	"github.com/godbus/dbus/v5"
)

var (
	// ErrNoBus means that there is no bus to talk to, or that it refuses to.
	ErrNoBus = errors.New("no system bus")
	// ErrTooLong ends a connection on which more was read than Config.Limit.
	ErrTooLong = errors.New("too long")
)

// Config says which bus, and how much of it. Its zero value is the system bus without a bound.
type Config struct {
	// Address is a bus address (D-Bus Specification, "Server Addresses"), of which the unix sockets are tried in order. "" means
	// DBUS_SYSTEM_BUS_ADDRESS when that is set, else the well-known socket.
	Address string
	// Limit ends the connection when more bytes than that were read from it. 0 means no bound but godbus's own of 128 MiB a
	// message.
	Limit   int64
	Options []dbus.ConnOption
	// Peer says that a program listens at the address, not a bus: there is nobody to say hello to.
	Peer bool
}

// wellKnown are where the system bus listens when DBUS_SYSTEM_BUS_ADDRESS does not say (D-Bus Specification, "Well-known
// message bus instances").
var wellKnown = []string{"/run/dbus/system_bus_socket", "/var/run/dbus/system_bus_socket"}

// Dial connects and authenticates, within ctx. Godbus's own ConnectSystemBus has no deadline: a bus that was stopped by a
// signal accepts through its backlog and then never answers.
//
// Errors match ErrNoBus, or ctx.Err() when time ran out.
func Dial(ctx context.Context, c Config) (*dbus.Conn, error) {
	plain, err := dialSocket(ctx, c.Address)
	if err != nil {
		return nil, err
	}
	socket := &boundedSocket{Conn: plain, buffer: bufio.NewReader(plain), left: c.Limit}
	if c.Limit == 0 {
		socket.left = math.MaxInt64
	}
	// A context's end that has no deadline of its own, such as a signal's, must end the reads of the handshake too.
	stop := context.AfterFunc(ctx, func() { socket.SetDeadline(time.Unix(1, 0)) })
	conn, err := handshake(socket, c)
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

// handshake owns the socket. Through dbus.NewConn it does not ask for the passing of file descriptors, which would be one
// more round trip.
func handshake(socket net.Conn, c Config) (*dbus.Conn, error) {
	conn, err := dbus.NewConn(socket, c.Options...)
	if err != nil {
		socket.Close()
		return nil, err
	}
	if err := conn.Auth(nil); err != nil {
		conn.Close()
		return nil, err
	}
	if c.Peer {
		return conn, nil
	}
	if err := conn.Hello(); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

func dialSocket(ctx context.Context, address string) (net.Conn, error) {
	if address == "" {
		address = os.Getenv("DBUS_SYSTEM_BUS_ADDRESS")
	}
	names, err := socketNames(address)
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

// socketNames returns the unix sockets of a bus address, in order; an abstract one with "@" in front, as package net has it.
// Other transports are for other hosts.
func socketNames(address string) ([]string, error) {
	if address == "" {
		return wellKnown, nil
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
		return nil, fmt.Errorf("%w: the address %q has no unix socket", ErrNoBus, address)
	}
	return names, nil
}

// writeTimeout is how long the bus may take to take a message from us. A stopped one takes none, and godbus's Close waits for
// the message under way (5.2.4).
const writeTimeout = 5 * time.Second

// A boundedSocket ends with ErrTooLong when more than the bound was read from it, which is godbus's only bound short of 128
// MiB a message, and when it does not take what is written to it.
type boundedSocket struct {
	net.Conn
	buffer *bufio.Reader // godbus reads octet by octet (5.2.4): a run of the hook made 440 system calls of it
	left   int64
}

func (b *boundedSocket) Write(p []byte) (int, error) {
	b.Conn.SetWriteDeadline(time.Now().Add(writeTimeout))
	n, err := b.Conn.Write(p)
	if err != nil {
		b.Conn.Close() // half a message may be out: nothing can follow it
	}
	return n, err
}

func (b *boundedSocket) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, ErrTooLong
	}
	n, err := b.buffer.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}
