package rawsock

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The port in a socket address is two bytes in network byte order (ip(7), ipv6(7)), whatever the
// byte order of the machine. Only this file accesses that field: code that swaps the bytes itself
// works on little-endian machines and fails on s390x.

// SetAddr writes a to name, as sockaddr_in or sockaddr_in6, and returns its size in bytes. It
// clears the rest of name only for sockaddr_in6. A zone is used only if it is an interface index,
// as returned by AddrPort.
func SetAddr(name *unix.RawSockaddrInet6, a netip.AddrPort) (size uint32) {
	if a.Addr().Is4() {
		v4 := (*unix.RawSockaddrInet4)(unsafe.Pointer(name))
		*v4 = unix.RawSockaddrInet4{Family: unix.AF_INET, Port: NetworkOrder(a.Port()), Addr: a.Addr().As4()}
		return unix.SizeofSockaddrInet4
	}
	*name = unix.RawSockaddrInet6{Family: unix.AF_INET6, Port: NetworkOrder(a.Port()), Addr: a.Addr().As16()}
	if zone := a.Addr().Zone(); zone != "" {
		index, _ := strconv.ParseUint(zone, 10, 32)
		name.Scope_id = uint32(index)
	}
	return unix.SizeofSockaddrInet6
}

// WithIndex replaces the zone of an address, an interface name, with the interface index.
func WithIndex(addr netip.Addr) (netip.Addr, error) {
	if addr.Zone() == "" {
		return addr, nil
	}
	device, err := net.InterfaceByName(addr.Zone())
	if err != nil {
		return addr, fmt.Errorf("link of %s: %w", addr, err)
	}
	return addr.WithZone(strconv.Itoa(device.Index)), nil
}

// AddrPort returns the address in name, which the kernel wrote. An IPv4-mapped address is returned
// as IPv4, and the zone is a number. The result is invalid if name has another family.
func AddrPort(name *unix.RawSockaddrInet6) netip.AddrPort {
	switch name.Family {
	case unix.AF_INET:
		v4 := (*unix.RawSockaddrInet4)(unsafe.Pointer(name))
		return netip.AddrPortFrom(netip.AddrFrom4(v4.Addr), NetworkOrder(v4.Port))
	case unix.AF_INET6:
		addr := netip.AddrFrom16(name.Addr).Unmap()
		if name.Scope_id != 0 {
			addr = addr.WithZone(strconv.FormatUint(uint64(name.Scope_id), 10))
		}
		return netip.AddrPortFrom(addr, NetworkOrder(name.Port))
	}
	return netip.AddrPort{}
}

// NetworkOrder converts a number between host and network byte order, like htons(3) and ntohs(3).
func NetworkOrder(n uint16) uint16 {
	var octets [2]byte
	binary.BigEndian.PutUint16(octets[:], n)
	return binary.NativeEndian.Uint16(octets[:])
}
