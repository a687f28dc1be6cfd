package dnsserver

import (
	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/sys/rawsock"
)

// receiveBlocked receives in the kernel until the receiver is idle, or stops.
func (u *udpSocket) receiveBlocked(fd uintptr) {
	u.file.bell.Mute()
	defer u.file.bell.Unmute()
	for u.pace.IsBusy() && !u.stopping.Load() {
		_, _ = u.receiveBatch(fd, true) // what fails passes
	}
}

// blockBriefly bounds how long a call waits that blocks, and has a signal end it, see busy.
func blockBriefly(fd int) error {
	timeout := unix.NsecToTimeval(rawsock.Timeout.Nanoseconds())
	return unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout)
}
