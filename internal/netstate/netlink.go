package netstate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Netlink is a netlink socket for one read.
type Netlink struct {
	socket   *nl.NetlinkSocket
	protocol int
	handle   map[int]*nl.SocketHandle
}

// DialNetlink opens a socket of a netlink protocol in the network namespace of the calling thread.
// limit bounds each request, and so does ctx.
func DialNetlink(ctx context.Context, protocol int, limit time.Duration) (Netlink, error) {
	s, err := nl.Subscribe(protocol)
	if err != nil {
		return Netlink{}, fmt.Errorf("opening a netlink socket: %w", err)
	}
	if deadline, ok := ctx.Deadline(); ok {
		limit = min(limit, max(time.Until(deadline), time.Millisecond))
	}
	tv := unix.NsecToTimeval(limit.Nanoseconds())
	if err := errors.Join(s.SetSendTimeout(&tv), s.SetReceiveTimeout(&tv)); err != nil {
		s.Close()
		return Netlink{}, fmt.Errorf("opening a netlink socket: %w", err)
	}
	return Netlink{s, protocol, map[int]*nl.SocketHandle{protocol: {Socket: s}}}, nil
}

// Close closes the socket.
func (n Netlink) Close() { n.socket.Close() }

// Dump sends the request, and calls each with every message of the reply's type until each fails.
func (n Netlink) Dump(request *nl.NetlinkRequest, reply uint16, each func(msg []byte) error) error {
	request.Sockets = n.handle
	var bad error
	err := request.ExecuteIter(n.protocol, reply, func(msg []byte) bool {
		bad = each(msg)
		return bad == nil
	})
	return errors.Join(err, bad)
}
