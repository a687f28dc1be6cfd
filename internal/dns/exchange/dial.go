package exchange

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
	"github.com/node-dns/node-dns/internal/sys/rawsock"
)

// DialUDP connects to a plain DNS server from the server's configured source and interface, and
// from the ports of udp. It does not block.
func DialUDP(ctx context.Context, to nameserver.Server, udp UDP) (net.Conn, error) {
	if udp.HasPorts() {
		return dialFrom(ctx, to, udp)
	}
	return dialBy(ctx, "udp", to, 0)
}

// dialBy connects from the given port; 0 lets the kernel pick one.
func dialBy(ctx context.Context, network string, to nameserver.Server, port uint16) (net.Conn, error) {
	if network == "udp" && to.Interface == "" && !to.Source.IsValid() {
		var from *net.UDPAddr
		if port != 0 {
			from = &net.UDPAddr{Port: int(port)}
		}
		return net.DialUDP("udp", from, net.UDPAddrFromAddrPort(to.Addr)) // without the overhead of a Dialer
	}
	return dialerBy(network, to, port).DialContext(ctx, network, to.Addr.String())
}

// dialerBy returns a Dialer with the source and interface of a server.
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

// MayBind returns an error if the process can never bind to the server's interface. Before Linux
// 5.7 this needs CAP_NET_RAW (c427bfec18f2). A missing interface is not an error, because it may
// appear later.
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

// UDP configures questions over UDP. With the zero value, the kernel picks the ports, and responses
// have at most 1232 bytes.
type UDP struct {
	// Low and High are the first and last source port, for firewalls that block all others
	// (min-port and max-port in dnsmasq). A small range makes responses easier to forge
	// (CVE-2008-1447). If High is 0, the kernel picks the port.
	Low, High uint16
	// Size is the maximum response size in bytes that queries ask for (edns-packet-max in
	// dnsmasq). 0 means 1232.
	Size uint16
	// Cookies enables DNS Cookies (RFC 7873) for servers that support them.
	Cookies bool
	// MixedCase randomizes the case of the letters in each question, and requires the same case in
	// the response (use-caps-for-id in unbound). If a server changes the case, the question is
	// retried over TCP in lower case.
	MixedCase bool
}

// DefaultUDPSize is the size that passes everywhere without fragmentation (DNS Flag Day 2020, RFC
// 9715 section 3.1).
const DefaultUDPSize = 1232

// HasPorts reports whether a port range is set.
func (u UDP) HasPorts() bool { return u.High != 0 }

// IsGuarded reports whether queries have more protection against forgery than port and ID.
func (u *UDP) IsGuarded() bool { return u.Cookies || u.MixedCase }

// maxDraws is the maximum number of random ports to try if other sockets use them. If three
// quarters of 1024 ports are in use, one question in 10,000 finds no free port.
const maxDraws = 32

// ErrNoPort means that none of the ports tried could be bound.
var ErrNoPort = errors.New("no port between min-port and max-port is free")

// dialFrom connects over UDP from a random port of the range, a new one for each question.
func dialFrom(ctx context.Context, to nameserver.Server, udp UDP) (net.Conn, error) {
	for range maxDraws {
		conn, err := dialBy(ctx, "udp", to, udp.draw())
		if errno := syscall.Errno(0); !errors.As(err, &errno) || !isTaken(errno) {
			return conn, err
		}
	}
	return nil, fmt.Errorf("%w: %w", ErrNoPort, syscall.EADDRNOTAVAIL)
}

// Bind binds a socket to the interface and source address of a server, and to one of udp's ports.
func Bind(fd int, to nameserver.Server, udp UDP) error {
	if to.Interface != "" {
		if err := unix.BindToDevice(fd, to.Interface); err != nil {
			return fmt.Errorf("binding to %s: %w", to.Interface, err)
		}
	}
	from := to.Source
	if !from.IsValid() && !udp.HasPorts() {
		return nil
	}
	if !from.IsValid() {
		from = netip.IPv6Unspecified()
		if to.Addr.Addr().Is4() {
			from = netip.IPv4Unspecified()
		}
	}
	from, err := rawsock.WithIndex(from)
	if err != nil {
		return err
	}
	return udp.bind(fd, from)
}

// bind binds a socket to an address and a random port: one of the range if there is one.
func (u UDP) bind(fd int, from netip.Addr) error {
	if !u.HasPorts() {
		return rawsock.CallError("bind", rawsock.Bind(fd, netip.AddrPortFrom(from, 0)))
	}
	for range maxDraws {
		errno := rawsock.Bind(fd, netip.AddrPortFrom(from, u.draw()))
		if !isTaken(errno) {
			return rawsock.CallError("bind", errno)
		}
	}
	return fmt.Errorf("%w: %w", ErrNoPort, syscall.EADDRNOTAVAIL)
}

// isTaken reports whether bind(2) failed because of the port, so that another port may work.
// EACCES: SELinux reserves ports for other services (name_bind). RHEL 9's policy reserves 690 UDP
// ports in 1024-32767 and 61000-65535.
func isTaken(errno syscall.Errno) bool {
	return errno == syscall.EADDRINUSE || errno == syscall.EACCES
}

// draw picks a port with the kernel's random generator, as newID does for IDs.
func (u UDP) draw() uint16 {
	var random [4]byte
	_, _ = rand.Read(random[:]) // never fails since Go 1.24, which crashes the program instead
	count := uint32(u.High) - uint32(u.Low) + 1
	return u.Low + uint16(binary.BigEndian.Uint32(random[:])%count)
}
