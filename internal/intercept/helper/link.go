package helper

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/intercept"
)

// linkName is the dummy link that holds the intercepted addresses. Package netstate knows the name,
// too: these addresses are not the node's own.
const linkName = "node-dns"

// Links whose addresses are not the host's own.
const (
	loopback = "lo"
	ipvs     = "kube-ipvs0" // of kube-proxy in mode ipvs
	// nodelocal is the link of NodeLocal DNSCache, which has its addresses while its pod is on this
	// node.
	nodelocal = "nodelocaldns"
)

// place is where an address is on this host.
type place struct {
	link string // the link that has it; if ours is one of several, another. "" if the address is not local
	ours bool   // our link has it, too
	// neighbor is the link through which this host has reached another host with the address, such
	// as a gateway; "" if it has not.
	neighbor string
}

// isOurs reports whether the helper has put the address there, or may do so.
func (p place) isOurs() bool { return p.link == "" || p.link == linkName || p.link == loopback }

// places returns where these addresses are.
func places(addrs []netip.Addr) (map[netip.Addr]place, error) {
	links, err := netlink.LinkList()
	if err != nil {
		return nil, fmt.Errorf("listing the links: %w", err)
	}
	names := map[int]string{}
	for _, link := range links {
		names[link.Attrs().Index] = link.Attrs().Name
	}
	have, err := netlink.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return nil, fmt.Errorf("listing the addresses: %w", err)
	}
	found := map[netip.Addr]place{}
	for _, addr := range addrs {
		found[addr] = place{}
	}
	for _, a := range have {
		addr, ok := netip.AddrFromSlice(a.IP)
		if !ok {
			continue
		}
		addr = addr.Unmap()
		// A link of the host's own wins over that of IPVS, and both win over ours: the address was
		// there before, or moved.
		at, wanted := found[addr]
		if !wanted {
			continue
		}
		other := place{link: names[a.LinkIndex]}
		at.ours = at.ours || other.isOurs()
		if at.isOurs() || at.link == ipvs && !other.isOurs() {
			at.link = other.link
		}
		found[addr] = at
	}
	return found, addNeighbors(found, names)
}

// addNeighbors notes which of these addresses other hosts on the same networks have (ARP, RFC 826;
// neighbor discovery, RFC 4861). A neighbor counts only where this host's routes lead to it. The
// kernel remembers a sender without asking it, so a pod can pretend to have any address.
func addNeighbors(found map[netip.Addr]place, names map[int]string) error {
	const known = netlink.NUD_REACHABLE | netlink.NUD_STALE | netlink.NUD_DELAY | netlink.NUD_PROBE | netlink.NUD_PERMANENT
	neighbors, err := netlink.NeighList(0, netlink.FAMILY_ALL)
	if err != nil {
		return fmt.Errorf("listing the neighbors: %w", err)
	}
	var routes []netlink.Route // of all tables; nil before a neighbor needs them
	for _, n := range neighbors {
		addr, _ := netip.AddrFromSlice(n.IP)
		addr = addr.Unmap()
		at, wanted := found[addr]
		if !wanted || n.State&known == 0 {
			continue
		}
		if routes == nil {
			if routes, err = netlink.RouteListFiltered(netlink.FAMILY_ALL, new(netlink.Route), netlink.RT_FILTER_TABLE); err != nil {
				return fmt.Errorf("listing the routes: %w", err)
			}
		}
		if slices.ContainsFunc(routes, func(r netlink.Route) bool { return leadsTo(r, addr, n.LinkIndex) }) {
			at.neighbor = names[n.LinkIndex]
			found[addr] = at
		}
	}
	return nil
}

// leadsTo reports whether a route makes the kernel send packets to a neighbor on a link: it has the
// neighbor as a gateway, or reaches it without one.
func leadsTo(r netlink.Route, addr netip.Addr, link int) bool {
	if r.Type != unix.RTN_UNICAST {
		return false
	}
	inDst := r.Dst == nil && (r.Family == netlink.FAMILY_V4) == addr.Is4() || r.Dst != nil && r.Dst.Contains(addr.AsSlice())
	hops := append(r.MultiPath, &netlink.NexthopInfo{LinkIndex: r.LinkIndex, Gw: r.Gw, Via: r.Via})
	return slices.ContainsFunc(hops, func(hop *netlink.NexthopInfo) bool {
		return hop.LinkIndex == link && (hop.Gw.Equal(addr.AsSlice()) || inDst && hop.Gw == nil && hop.Via == nil)
	})
}

// addAddress makes an address local. Where the kernel has no dummy links, lo gets it.
func addAddress(addr netip.Addr) error {
	link, err := ensureLink()
	if err != nil {
		return err
	}
	a := &netlink.Addr{IPNet: &net.IPNet{IP: addr.AsSlice(), Mask: net.CIDRMask(addr.BitLen(), addr.BitLen())}, Flags: unix.IFA_F_NODAD}
	if err := netlink.AddrReplace(link, a); err != nil {
		return fmt.Errorf("adding %s to %s: %w", addr, link.Attrs().Name, err)
	}
	return nil
}

// ensureLink returns the link for the addresses. It creates the dummy link if it is missing.
func ensureLink() (netlink.Link, error) {
	link, err := netlink.LinkByName(linkName)
	var missing netlink.LinkNotFoundError
	if errors.As(err, &missing) {
		err = netlink.LinkAdd(&netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Name: linkName}})
		if errors.Is(err, unix.EOPNOTSUPP) {
			link, err = netlink.LinkByName(loopback)
			if err != nil {
				return nil, fmt.Errorf("looking for %s: %w", loopback, err)
			}
			return link, nil
		}
		if err == nil {
			link, err = netlink.LinkByName(linkName)
		}
	}
	if err == nil && link.Attrs().Flags&net.FlagUp == 0 {
		err = netlink.LinkSetUp(link)
	}
	if err != nil {
		return nil, fmt.Errorf("creating the link %s: %w", linkName, err)
	}
	return link, nil
}

// linkAddrs returns the addresses of the link for them; none if there is no such link.
func linkAddrs() ([]netip.Addr, error) {
	link, err := netlink.LinkByName(linkName)
	var missing netlink.LinkNotFoundError
	if errors.As(err, &missing) {
		return nil, nil
	}
	var have []netlink.Addr
	if err == nil {
		have, err = netlink.AddrList(link, netlink.FAMILY_ALL)
	}
	if err != nil {
		return nil, fmt.Errorf("listing the addresses of %s: %w", linkName, err)
	}
	var addrs []netip.Addr
	for _, a := range have {
		if addr, ok := netip.AddrFromSlice(a.IP); ok && intercept.Check(addr.Unmap()) == nil { // not the link's own fe80::
			addrs = append(addrs, addr.Unmap())
		}
	}
	return addrs, nil
}

// removeAddress removes an address from the link for it. It is no error if it is gone.
func removeAddress(addr netip.Addr) error {
	link, err := ensureLink()
	if err != nil {
		return err
	}
	err = netlink.AddrDel(link, &netlink.Addr{IPNet: &net.IPNet{IP: addr.AsSlice(), Mask: net.CIDRMask(addr.BitLen(), addr.BitLen())}})
	if err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
		return fmt.Errorf("removing %s from %s: %w", addr, link.Attrs().Name, err)
	}
	return nil
}

// removeLink removes the dummy link with all its addresses. It is no error if the link is gone.
func removeLink() error {
	link, err := netlink.LinkByName(linkName)
	var missing netlink.LinkNotFoundError
	if errors.As(err, &missing) {
		return nil
	}
	if err == nil {
		err = netlink.LinkDel(link)
	}
	if err != nil {
		return fmt.Errorf("removing the link %s: %w", linkName, err)
	}
	return nil
}
