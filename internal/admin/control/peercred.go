package control

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// peer is the process at the other end of a unix socket. The kernel recorded its user and groups
// when it connected (unix(7), SO_PEERCRED and SO_PEERGROUPS), so no process can forge them.
type peer struct {
	PID    int // 0 if it is in another PID namespace
	UID    int
	Groups []int // primary and supplementary groups
}

// isIn reports whether the process is a member of group.
func (p peer) isIn(group int) bool { return slices.Contains(p.Groups, group) }

// maxGroups is NGROUPS_MAX from limits.h.
const maxGroups = 1 << 16

// peerOf returns the process at the other end of a connection.
func peerOf(conn syscall.Conn) (peer, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return peer{}, fmt.Errorf("identifying the caller: %w", err)
	}
	var p peer
	var peerErr error
	if err := raw.Control(func(fd uintptr) { p, peerErr = peerOfSocket(int(fd)) }); err != nil || peerErr != nil {
		return peer{}, fmt.Errorf("identifying the caller: %w", errors.Join(err, peerErr))
	}
	return p, nil
}

func peerOfSocket(fd int) (peer, error) {
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return peer{}, os.NewSyscallError("getsockopt", err)
	}
	p := peer{PID: int(cred.Pid), UID: int(cred.Uid), Groups: []int{int(cred.Gid)}}
	groups, err := groupsOf(fd)
	for _, group := range groups {
		p.Groups = append(p.Groups, int(group))
	}
	return p, err
}

// groupsOf returns the supplementary groups. It returns none on kernels before 4.13, which cannot
// report them.
func groupsOf(fd int) ([]uint32, error) {
	for room := 64; room <= maxGroups; {
		groups := make([]uint32, room)
		octets := uint32(4 * room)
		_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_PEERGROUPS,
			uintptr(unsafe.Pointer(&groups[0])), uintptr(unsafe.Pointer(&octets)), 0)
		switch errno {
		case 0:
			return groups[:min(int(octets/4), room)], nil
		case unix.ERANGE: // there are more groups; octets holds the needed size
			room = max(int(octets/4), 2*room)
		case unix.ENOPROTOOPT:
			return nil, nil
		default:
			return nil, os.NewSyscallError("getsockopt", errno)
		}
	}
	return nil, os.NewSyscallError("getsockopt", unix.ERANGE)
}
