package rawsock

import (
	"bytes"
	"encoding/binary"
	"net"
	"net/netip"
	"slices"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestOctets: socket addresses have the bytes that ip(7) and ipv6(7) describe. Only the family and
// the scope ID are in host byte order.
func TestOctets(t *testing.T) {
	family := func(n uint16) []byte { return binary.NativeEndian.AppendUint16(nil, n) }
	scope := func(n uint32) []byte { return binary.NativeEndian.AppendUint32(nil, n) }
	loopback6 := append(make([]byte, 15), 1)
	linkLocal := append([]byte{0xfe, 0x80}, loopback6[2:]...)
	for _, row := range []struct {
		name, address string
		want          []byte
	}{
		{"IPv4, the port of DNS", "192.0.2.58:53", slices.Concat(family(unix.AF_INET), []byte{0, 53, 192, 0, 2, 58}, make([]byte, 8))},
		{"IPv4, two different bytes", "127.0.0.1:4660", slices.Concat(family(unix.AF_INET), []byte{0x12, 0x34, 127, 0, 0, 1}, make([]byte, 8))},
		{"IPv6, the port of DNS", "[::1]:53", slices.Concat(family(unix.AF_INET6), []byte{0, 53, 0, 0, 0, 0}, loopback6, scope(0))},
		{"IPv6 with a zone", "[fe80::1%70000]:53", slices.Concat(family(unix.AF_INET6), []byte{0, 53, 0, 0, 0, 0}, linkLocal, scope(70000))},
	} {
		t.Run(row.name, func(t *testing.T) {
			want := netip.MustParseAddrPort(row.address)
			var name unix.RawSockaddrInet6
			size := SetAddr(&name, want)
			octets := unsafe.Slice((*byte)(unsafe.Pointer(&name)), unsafe.Sizeof(name))[:size]
			if !bytes.Equal(octets, row.want) {
				t.Errorf("octets %x, want %x", octets, row.want)
			}
			if got := AddrPort(&name); got != want {
				t.Errorf("AddrPort returned %v, want %v", got, want)
			}
		})
	}
}

// TestKernel: the kernel connects a socket to the address that SetAddr wrote, and AddrPort reads
// the address that the kernel wrote.
func TestKernel(t *testing.T) {
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	want := server.LocalAddr().(*net.UDPAddr).AddrPort()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	var name unix.RawSockaddrInet6
	size := SetAddr(&name, want)
	if _, _, errno := unix.RawSyscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&name)), uintptr(size)); errno != 0 {
		t.Fatal(errno)
	}
	if peer, err := unix.Getpeername(fd); err != nil || peer.(*unix.SockaddrInet4).Port != int(want.Port()) {
		t.Errorf("connected to %+v, want %v: %v", peer, want, err)
	}
	name, size = unix.RawSockaddrInet6{}, uint32(unsafe.Sizeof(name))
	if _, _, errno := unix.RawSyscall(unix.SYS_GETPEERNAME, uintptr(fd), uintptr(unsafe.Pointer(&name)), uintptr(unsafe.Pointer(&size))); errno != 0 {
		t.Fatal(errno)
	}
	if got := AddrPort(&name); got != want {
		t.Errorf("AddrPort returned %v for the kernel's address, want %v", got, want)
	}
}

// TestForeign: AddrPort returns an invalid address for another family.
func TestForeign(t *testing.T) {
	if got := AddrPort(&unix.RawSockaddrInet6{Family: unix.AF_UNIX}); got.IsValid() {
		t.Error(got)
	}
}
