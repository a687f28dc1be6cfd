package exchange

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// DialUDP connects to a plain server from the source and by the interface that it has, and from the ports of udp. It does not wait.
func DialUDP(ctx context.Context, to nameserver.Server, udp UDP) (net.Conn, error) {
	if udp.HasPorts() {
		return dialFrom(ctx, to, udp)
	}
	return dialBy(ctx, "udp", to, 0)
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

// MayBind returns an error if the server's interface can never be bound to: before Linux 5.7 that
// needs CAP_NET_RAW (c427bfec18f2). It returns nil if the interface does not exist, because it may
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

// UDP is how questions go over UDP. The zero value: from ports that the kernel picks, for responses of at most 1232 octets.
type UDP struct {
	// Low and High are the first and the last of the ports that questions leave from, where a firewall lets no others
	// pass (dnsmasq's min-port and max-port). Few of them make responses easy to forge (CVE-2008-1447). High 0: the
	// kernel picks one.
	Low, High uint16
	// Size is the largest response that is asked for, in octets (dnsmasq's edns-packet-max). 0: 1232.
	Size uint16
	// Cookies has servers that speak them asked with DNS Cookies (RFC 7873).
	Cookies bool
	// MixedCase has the letters of questions in a case that is drawn for each, which responses must have too (unbound's
	// use-caps-for-id). A server that answers in another case is asked over TCP, and in lower case then.
	MixedCase bool
}

// DefaultUDPSize is what passes without fragments everywhere (DNS Flag Day 2020, RFC 9715 section 3.1).
const DefaultUDPSize = 1232

// HasPorts reports whether the ports are given.
func (u UDP) HasPorts() bool { return u.High != 0 }

// IsGuarded reports whether queries have more than a port and an ID to them.
func (u *UDP) IsGuarded() bool { return u.Cookies || u.MixedCase }

// MaxDraws is the number of ports that are tried while other sockets hold the drawn ones. If three
// quarters of 1024 ports are held, one question in 10,000 finds no free port.
const MaxDraws = 32

// ErrNoPort says that no port that was drawn could be bound.
var ErrNoPort = errors.New("no port between min-port and max-port is free")

// dialFrom connects over UDP from a random port of the range, a new one for each question.
func dialFrom(ctx context.Context, to nameserver.Server, udp UDP) (net.Conn, error) {
	for range MaxDraws {
		conn, err := dialBy(ctx, "udp", to, udp.Draw())
		if errno := syscall.Errno(0); !errors.As(err, &errno) || !IsTaken(errno) {
			return conn, err
		}
	}
	return nil, fmt.Errorf("%w: %w", ErrNoPort, syscall.EADDRNOTAVAIL)
}

// IsTaken reports whether bind(2) failed because of the port, so that another port may do. EACCES: SELinux reserves ports for
// other services (name_bind), 690 UDP ports of 1024 to 32767 and 61000 to 65535 in RHEL 9's policy.
func IsTaken(errno syscall.Errno) bool {
	return errno == syscall.EADDRINUSE || errno == syscall.EACCES
}

// Draw draws a port from the kernel's generator, as newID does an ID.
func (u UDP) Draw() uint16 {
	var random [4]byte
	_, _ = rand.Read(random[:]) // never fails since Go 1.24: it ends the program instead
	count := uint32(u.High) - uint32(u.Low) + 1
	return u.Low + uint16(binary.BigEndian.Uint32(random[:])%count)
}
