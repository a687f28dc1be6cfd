// Package dbusconn connects to the system bus, or to a bus at another address, with a deadline, and
// queries systemd's manager about units and their jobs.
//
// The packages nm and dbusapi talk to NetworkManager and to our own clients, and supervise reports
// the daemon's state to the manager. The privileged part uses the manager's own socket, as
// systemctl(1) does for root, so it works without a bus: at the end of a shutdown, and while the
// bus restarts. The daemon cannot access that socket and uses AskOnBus.
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
	// ErrNoBus means that there is no bus, or that it rejects the connection.
	ErrNoBus = errors.New("no system bus")
	// ErrTooLong ends a connection that delivered more than Config.Limit.
	ErrTooLong = errors.New("too long")
)

// Config selects the bus and limits it. The zero value is the system bus without a limit.
type Config struct {
	// Address is a bus address (D-Bus Specification, "Server Addresses"). Its unix sockets are
	// tried in order. "" means DBUS_SYSTEM_BUS_ADDRESS if set, or else the well-known socket.
	Address string
	// Limit is the maximum number of bytes read from the connection; reading more ends it. 0 means
	// no limit except godbus's own of 128 MiB per message.
	Limit   int64
	Options []dbus.ConnOption
	// Peer is set if the address belongs to a program and not to a bus, so that no Hello is sent.
	Peer bool
}

// wellKnown lists the sockets of the system bus if DBUS_SYSTEM_BUS_ADDRESS is not set (D-Bus
// Specification, "Well-known message bus instances").
var wellKnown = []string{"/run/dbus/system_bus_socket", "/var/run/dbus/system_bus_socket"}

// Dial connects and authenticates until ctx ends. Godbus's own ConnectSystemBus has no deadline: a
// bus that is stopped by a signal accepts connections through its backlog and never answers.
//
// Errors match ErrNoBus, or ctx.Err() on a timeout.
func Dial(ctx context.Context, c Config) (*dbus.Conn, error) {
	plain, err := dialSocket(ctx, c.Address)
	if err != nil {
		return nil, err
	}
	socket := &boundedSocket{Conn: plain, buffer: bufio.NewReader(plain), left: c.Limit}
	if c.Limit == 0 {
		socket.left = math.MaxInt64
	}
	// If ctx ends without a deadline, for example by a signal, the reads of the handshake must end
	// too.
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

// handshake takes ownership of the socket. With dbus.NewConn it does not request passing of file
// descriptors, which would take one more round trip.
func handshake(socket net.Conn, c Config) (*dbus.Conn, error) {
	conn, err := dbus.NewConn(socket, c.Options...)
	if err != nil {
		socket.Close()
		return nil, err
	}
	err = conn.Auth(nil)
	if err == nil && !c.Peer {
		err = conn.Hello()
	}
	if err != nil {
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

// socketNames returns the unix sockets of a bus address in order. An abstract socket has the prefix
// "@", as in package net. Other transports are for remote hosts.
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

// writeTimeout is the time that the bus may take to accept a message. A stopped bus accepts none,
// and godbus's Close waits for the message being written (5.2.4).
const writeTimeout = 5 * time.Second

// A boundedSocket ends with ErrTooLong when more than its limit was read, because godbus's only
// limit is 128 MiB per message. It also ends when the bus does not accept what is written.
type boundedSocket struct {
	net.Conn
	// Godbus reads byte by byte (5.2.4), which took 440 system calls in a run of the hook.
	buffer *bufio.Reader
	left   int64
}

func (b *boundedSocket) Write(p []byte) (int, error) {
	b.Conn.SetWriteDeadline(time.Now().Add(writeTimeout))
	n, err := b.Conn.Write(p)
	if err != nil {
		b.Conn.Close() // the message may be partly sent, so nothing can follow it
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
