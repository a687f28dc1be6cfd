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

// DialUDP connects to a plain server as its questions do. It does not wait.
func (f *Forward) DialUDP(ctx context.Context, to nameserver.Server) (net.Conn, error) {
	return dialServer(ctx, "udp", to, *f.udp.Load())
}

// dialServer connects to a plain server, over "udp" or "tcp", from the source and by the interface that it has, and over UDP from
// the ports of udp. Over UDP it does not wait.
func dialServer(ctx context.Context, network string, to nameserver.Server, udp UDP) (net.Conn, error) {
	if network == "udp" && udp.hasPorts() {
		return dialFrom(ctx, to, udp)
	}
	return dialBy(ctx, network, to, 0)
}

// dialBy connects from a port; 0: from one that the kernel picks.
func dialBy(ctx context.Context, network string, to nameserver.Server, port uint16) (net.Conn, error) {
	if network == "udp" && to.Interface == "" && !to.Source.IsValid() {
		var from *net.UDPAddr
		if port != 0 {
			from = &net.UDPAddr{Port: int(port)}
		}
		return net.DialUDP("udp", from, net.UDPAddrFromAddrPort(to.Addr)) // without the costs of a Dialer
	}
	return dialerBy(network, to, port).DialContext(ctx, network, to.Addr.String())
}

// dialerBy has the source and the interface of a server.
func dialerBy(network string, to nameserver.Server, port uint16) *net.Dialer {
	dialer := &net.Dialer{}
	if port != 0 {
		dialer.LocalAddr = &net.UDPAddr{Port: int(port)}
	}
	if to.Interface != "" {
		dialer.Control = bindTo(to.Interface)
	}
	if to.Source.IsValid() {
		dialer.LocalAddr = &net.UDPAddr{IP: to.Source.AsSlice(), Zone: to.Source.Zone(), Port: int(port)}
		if network == "tcp" {
			dialer.LocalAddr = &net.TCPAddr{IP: to.Source.AsSlice(), Zone: to.Source.Zone()}
		}
	}
	return dialer
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
