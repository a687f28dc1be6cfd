package netstate

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// Changes come in bursts: an interface that comes up causes a dozen messages. A burst ends after
// quiet without messages. It is reported within patience, so that a node where containers start and
// stop all the time also reports changes.
const (
	quiet    = 100 * time.Millisecond
	patience = time.Second
)

// Watch calls changed once when it starts to listen, so that no change after an earlier Read is
// lost. Then it calls changed after each burst of changes to addresses, links, rules, default
// routes and routes without a router. The calls do not say what changed: call Read. They do not
// overlap.
//
// It returns nil when ctx ends, and an error if it cannot receive the kernel's messages.
func Watch(ctx context.Context, changed func()) error {
	s, err := nl.Subscribe(unix.NETLINK_ROUTE,
		unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR,
		unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE, unix.RTNLGRP_IPV4_RULE, unix.RTNLGRP_IPV6_RULE)
	if err != nil {
		return fmt.Errorf("subscribing to network changes: %w", err)
	}
	tasks, ctx := errgroup.WithContext(ctx)
	hints := make(chan struct{}, 1)
	context.AfterFunc(ctx, s.Close) // ctx ends with the group, for any reason
	tasks.Go(func() error { return receive(ctx, s, hints) })
	tasks.Go(func() error {
		coalesce(ctx, hints, changed)
		return nil
	})
	return tasks.Wait()
}

// receive sends a hint for every message that may matter, until the end of ctx closes the socket.
func receive(ctx context.Context, s *nl.NetlinkSocket, hints chan<- struct{}) error {
	for {
		msgs, _, err := s.Receive()
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, unix.ENOBUFS): // messages were lost: netlink(7)
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN):
			continue
		case err != nil:
			return fmt.Errorf("receiving network changes: %w", err)
		case !anyMatters(msgs):
			continue
		}
		select {
		case hints <- struct{}{}:
		default: // a hint is already pending
		}
	}
}

func anyMatters(msgs []syscall.NetlinkMessage) bool {
	for _, m := range msgs {
		switch m.Header.Type {
		case unix.RTM_NEWROUTE, unix.RTM_DELROUTE:
			// Only /0 routes and routes without a router. A router's thousands of other routes do
			// not matter.
			if len(m.Data) > 1 && m.Data[1] == 0 {
				return true
			}
			if _, ok := onLink(m.Data); ok {
				return true
			}
		case unix.RTM_NEWLINK, unix.RTM_DELLINK, unix.RTM_NEWADDR, unix.RTM_DELADDR,
			unix.RTM_NEWRULE, unix.RTM_DELRULE:
			return true
		}
	}
	return false
}

// coalesce calls changed at once, and then once per burst of hints.
func coalesce(ctx context.Context, hints <-chan struct{}, changed func()) {
	changed()
	for {
		select {
		case <-ctx.Done():
			return
		case <-hints:
		}
		latest := time.After(patience)
		for over := false; !over; {
			select {
			case <-ctx.Done():
				return
			case <-hints:
			case <-latest:
				over = true
			case <-time.After(quiet):
				over = true
			}
		}
		changed()
	}
}
