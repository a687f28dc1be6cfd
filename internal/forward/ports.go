package forward

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"syscall"

	"github.com/node-dns/node-dns/internal/nameserver"
)

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

// defaultUDPSize is what passes without fragments everywhere (DNS Flag Day 2020, RFC 9715 section 3.1).
const defaultUDPSize = 1232

func (u UDP) hasPorts() bool { return u.High != 0 }

// SetUDP replaces Config.UDP, for the questions that are not on their way yet.
func (f *Forward) SetUDP(u UDP) {
	if u.Size == 0 {
		u.Size = defaultUDPSize
	}
	f.udp.Store(&u)
}

// maxDraws is how many ports are tried where others hold those that were drawn. With three quarters of 1024 ports held, one
// question in 10,000 finds none.
const maxDraws = 32

// errNoPort says that no port that was drawn could be bound.
var errNoPort = errors.New("no port between min-port and max-port is free")

// dialFrom connects over UDP from a random port of the range, a new one for each question.
func dialFrom(ctx context.Context, to nameserver.Server, udp UDP) (net.Conn, error) {
	for range maxDraws {
		conn, err := dialBy(ctx, "udp", to, udp.draw())
		if errno := syscall.Errno(0); !errors.As(err, &errno) || !isTaken(errno) {
			return conn, err
		}
	}
	return nil, fmt.Errorf("%w: %w", errNoPort, syscall.EADDRNOTAVAIL)
}

// isTaken reports whether bind(2) failed because of the port, so that another port may do. EACCES: SELinux reserves ports for
// other services (name_bind), 690 UDP ports of 1024 to 32767 and 61000 to 65535 in RHEL 9's policy.
func isTaken(errno syscall.Errno) bool {
	return errno == syscall.EADDRINUSE || errno == syscall.EACCES
}

// draw draws a port from the kernel's generator, as newID does an ID.
func (u UDP) draw() uint16 {
	var random [4]byte
	_, _ = rand.Read(random[:]) // never fails since Go 1.24: it ends the program instead
	count := uint32(u.High) - uint32(u.Low) + 1
	return u.Low + uint16(binary.BigEndian.Uint32(random[:])%count)
}
