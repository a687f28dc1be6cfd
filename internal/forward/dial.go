package forward

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/nameserver"
)

// Dial connects to a plain server, over "udp" or "tcp", from the source and by the interface that it has. Over UDP it does
// not wait.
func Dial(ctx context.Context, network string, to nameserver.Server) (net.Conn, error) {
	if network == "udp" && to.Interface == "" && !to.Source.IsValid() {
		return net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(to.Addr)) // without the costs of a Dialer
	}
	var dialer net.Dialer
	if to.Interface != "" {
		dialer.Control = bindTo(to.Interface)
	}
	if to.Source.IsValid() {
		dialer.LocalAddr = &net.UDPAddr{IP: to.Source.AsSlice(), Zone: to.Source.Zone()}
		if network == "tcp" {
			dialer.LocalAddr = &net.TCPAddr{IP: to.Source.AsSlice(), Zone: to.Source.Zone()}
		}
	}
	return dialer.DialContext(ctx, network, to.Addr.String())
}

func bindTo(device string) func(network, address string, c syscall.RawConn) error {
	return func(_, _ string, c syscall.RawConn) error {
		var err error
		if controlErr := c.Control(func(fd uintptr) { err = unix.BindToDevice(int(fd), device) }); controlErr != nil {
			return controlErr
		}
		if err != nil {
			return fmt.Errorf("binding to %s: %w", device, err)
		}
		return nil
	}
}

// MayBind says why the server's interface cannot be bound to, now or ever: without CAP_NET_RAW Linux lets nobody do it
// before 5.7 (c427bfec18f2). An interface that does not exist may come; nil then too.
func MayBind(to nameserver.Server) error {
	if to.Interface == "" {
		return nil
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("opening a socket: %w", err)
	}
	defer unix.Close(fd)
	if err := unix.BindToDevice(fd, to.Interface); err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("binding to %s: %w", to.Interface, err)
	}
	return nil
}
