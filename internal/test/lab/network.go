package lab

import (
	"fmt"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// resetNetwork removes everything but loopback and the kernel's own routing rules.
func resetNetwork() error {
	if err := flushRules(); err != nil {
		return err
	}
	links, err := netlink.LinkList()
	if err != nil {
		return fmt.Errorf("listing links: %w", err)
	}
	for _, link := range links {
		if link.Attrs().Name == "lo" {
			err = resetLoopback(link)
		} else {
			err = netlink.LinkDel(link)
		}
		if err != nil && !isGone(link) {
			return fmt.Errorf("clearing %s: %w", link.Attrs().Name, err)
		}
	}
	if err := resetRules(); err != nil {
		return err
	}
	// Duplicate address detection takes a second, and is pointless on these links.
	for _, which := range []string{"all", "default"} {
		if err := os.WriteFile("/proc/sys/net/ipv6/conf/"+which+"/accept_dad", []byte("0"), 0); err != nil {
			return fmt.Errorf("disabling duplicate address detection: %w", err)
		}
	}
	return nil
}

// isGone reports whether a link has just vanished: a veth goes with its peer.
func isGone(link netlink.Link) bool {
	_, err := netlink.LinkByIndex(link.Attrs().Index)
	return err != nil
}

func resetLoopback(lo netlink.Link) error {
	addrs, err := netlink.AddrList(lo, netlink.FAMILY_ALL)
	if err != nil {
		return err
	}
	for _, a := range addrs {
		if !a.IP.IsLoopback() || a.IP.To4() != nil && a.IP.String() != "127.0.0.1" {
			if err := netlink.AddrDel(lo, &a); err != nil {
				return err
			}
		}
	}
	return netlink.LinkSetUp(lo)
}

// resetRules removes routing rules that a test added. Every network namespace starts with local,
// main and default.
func resetRules() error {
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		rules, err := netlink.RuleList(family)
		if err != nil {
			return fmt.Errorf("listing routing rules: %w", err)
		}
		for _, r := range rules {
			if r.Table == unix.RT_TABLE_LOCAL || r.Priority == 32766 || r.Priority == 32767 {
				continue
			}
			r.Family = family
			if err := netlink.RuleDel(&r); err != nil {
				return fmt.Errorf("deleting routing rule %v: %w", r, err)
			}
		}
	}
	return nil
}
