package netstate

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// maxTries bounds how often a dump is repeated because its tables changed while it was read.
const maxTries = 5

// maxOnLink bounds the stored on-link networks. There may be one per pod, and a node has some
// hundred pods.
const maxOnLink = 4096

// kernelTimeout bounds one request. The kernel answers within microseconds. A routing table with a
// million routes takes about a second.
const kernelTimeout = 10 * time.Second

// Read reads the kernel's addresses, rules and default routes. It needs no privileges and sends no
// packets. The error says what could not be read. A State is always complete: Read repeats an
// interrupted read, and fails if the tables keep changing.
func Read(ctx context.Context) (State, error) {
	var err error
	for range maxTries {
		if err := ctx.Err(); err != nil {
			return State{}, fmt.Errorf("reading network state: %w", err)
		}
		var s State
		s, err = readOnce(ctx)
		if !errors.Is(err, nl.ErrDumpInterrupted) {
			return s, err
		}
	}
	return State{}, err
}

func readOnce(ctx context.Context) (State, error) {
	socket, err := DialNetlink(ctx, unix.NETLINK_ROUTE, kernelTimeout)
	if err != nil {
		return State{}, err
	}
	defer socket.Close()
	c := conn{socket}
	f := facts{links: map[int]link{}, rules: map[family][]rule{}, routes: map[family][]route{}}
	if err := c.readLinks(&f); err != nil {
		return State{}, fmt.Errorf("reading links: %w", err)
	}
	for _, fam := range []family{inet, inet6} {
		if err := c.readAddresses(fam, &f); err != nil {
			return State{}, fmt.Errorf("reading addresses: %w", err)
		}
		if err := c.readRules(fam, &f); err != nil {
			return State{}, fmt.Errorf("reading routing rules: %w", err)
		}
		if err := c.readRoutes(fam, &f); err != nil {
			return State{}, fmt.Errorf("reading routes: %w", err)
		}
	}
	return f.state(c.sourceTowards), nil
}

// conn reads from rtnetlink(7).
type conn struct{ Netlink }

// dump reads all objects of one kind. A kernel without the family (ipv6.disable=1) has none.
func (c conn) dump(kind int, reply uint16, header nl.NetlinkRequestData, each func(msg []byte) error) error {
	request := nl.NewNetlinkRequest(kind, unix.NLM_F_DUMP)
	request.AddData(header)
	err := c.Dump(request, reply, each)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EAFNOSUPPORT) {
		return nil
	}
	return err
}

func (c conn) readLinks(f *facts) error {
	return c.dump(unix.RTM_GETLINK, unix.RTM_NEWLINK, nl.NewIfInfomsg(unix.AF_UNSPEC), func(msg []byte) error {
		index, l, err := decodeLink(msg)
		f.links[index] = l
		return err
	})
}

func (c conn) readAddresses(fam family, f *facts) error {
	return c.dump(unix.RTM_GETADDR, unix.RTM_NEWADDR, nl.NewIfAddrmsg(int(fam)), func(msg []byte) error {
		a, err := decodeAddress(msg)
		f.addrs = append(f.addrs, a)
		return err
	})
}

func (c conn) readRules(fam family, f *facts) error {
	err := c.dump(unix.RTM_GETRULE, unix.RTM_NEWRULE, rtMsg(fam, 0), func(msg []byte) error {
		r, err := decodeRule(msg)
		f.rules[fam] = append(f.rules[fam], r)
		return err
	})
	if len(f.rules[fam]) == 0 {
		f.rules[fam] = plainRules()
	}
	return err
}

func (c conn) readRoutes(fam family, f *facts) error {
	return c.dump(unix.RTM_GETROUTE, unix.RTM_NEWROUTE, rtMsg(fam, 0), func(msg []byte) error {
		if d, ok := onLink(msg); ok && len(f.onLink) < maxOnLink {
			f.onLink = append(f.onLink, d)
			return nil
		}
		if !isDefault(msg) {
			return nil
		}
		r, err := decodeRoute(msg)
		f.routes[fam] = append(f.routes[fam], r)
		return err
	})
}

// sourceTowards asks the kernel: "ip route get DESTINATION oif N".
func (c conn) sourceTowards(destination netip.Addr, index int) netip.Addr {
	fam := inet6
	if destination.Is4() {
		fam = inet
	}
	request := nl.NewNetlinkRequest(unix.RTM_GETROUTE, 0)
	request.Sockets = c.handle
	request.AddData(rtMsg(fam, uint8(destination.BitLen())))
	request.AddData(nl.NewRtAttr(unix.RTA_DST, destination.AsSlice()))
	request.AddData(nl.NewRtAttr(unix.RTA_OIF, nl.Uint32Attr(uint32(index))))
	msgs, err := request.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWROUTE)
	if err != nil || len(msgs) == 0 {
		return netip.Addr{} // no route: the address is chosen without the kernel's answer
	}
	r, err := decodeRoute(msgs[0])
	if err != nil {
		return netip.Addr{}
	}
	return r.source
}

func rtMsg(fam family, dstLen uint8) *nl.RtMsg {
	return &nl.RtMsg{RtMsg: unix.RtMsg{Family: uint8(fam), Dst_len: dstLen}}
}
