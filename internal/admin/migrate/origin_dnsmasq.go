package migrate

import (
	"fmt"
	"slices"
	"strings"
)

// Units.
const (
	daemonUnit  = "node-dns.service"
	applyPath   = "node-dns-apply.path"
	applyUnit   = "node-dns-apply.service"
	dnsmasqUnit = "dnsmasq.service"
)

// plainDnsmasq is a dnsmasq.service that somebody set up, with nothing of OpenShift's around it. The dnsmasq of others, which
// libvirt, NetworkManager and podman start for themselves, is none of these: it runs in their units.
func plainDnsmasq() origin {
	return origin{
		name:  "dnsmasq",
		files: []string{"/etc/dnsmasq.conf", "/etc/dnsmasq.d/*"},
		units: []string{dnsmasqUnit},
		find: func(h Host) []Finding {
			if len(findOpenshift3(h)) > 0 || h.hasForcedns() || !h.holds(dnsmasqUnit, portDNS) {
				return nil
			}
			return []Finding{{Origin: "dnsmasq", What: "dnsmasq on port 53 (" + dnsmasqUnit + ")", Evidence: dnsmasqEvidence(h)}}
		},
		steps: giveUpDnsmasq,
	}
}

// runsDnsmasq reports whether dnsmasq.service answers here, or would after the next boot. One that is active and holds no
// port 53 (port=0) is there for DHCP or TFTP.
func runsDnsmasq(h Host) bool {
	unit := h.Units[dnsmasqUnit]
	return h.holds(dnsmasqUnit, portDNS) || unit.Load == "loaded" && unit.File == "enabled" && !unit.IsActive()
}

func dnsmasqEvidence(h Host) []string {
	if !runsDnsmasq(h) {
		return nil
	}
	unit := h.Units[dnsmasqUnit]
	lines := []string{strings.TrimRight(fmt.Sprintf("%s is %s, %s", dnsmasqUnit, unit.Active, unit.File), ", ")}
	var at []string
	for _, holder := range h.holdersWhere(func(holder Holder) bool { return holder.Unit == dnsmasqUnit && holder.Addr.Port() == portDNS }) {
		at = append(at, holder.Addr.Addr().String())
	}
	if len(at) > 0 {
		slices.Sort(at)
		lines = append(lines, "it holds port 53 of "+strings.Join(slices.Compact(at), ", "))
	}
	return lines
}

// giveUpDnsmasq hands port 53 over and keeps dnsmasq.service from coming back, if it runs.
func giveUpDnsmasq(h Host) (p part) {
	if !runsDnsmasq(h) {
		return p
	}
	if h.holds(dnsmasqUnit, portDHCP, portTFTP, portDHCPv6) {
		p.refused = append(p.refused, dnsmasqUnit+" serves DHCP or TFTP as well, which node-dns does not: set port=0 in its files and "+
			"restart it, or give these to another service; then there is no port 53 to take over")
	}
	if h.holds(dnsmasqUnit, portDNS) {
		p.port = append(p.port, takeStep(h, dnsmasqUnit))
		if !h.HasNFT {
			p.notes = append(p.notes, "there is no nft(8): a TCP connection that begins while dnsmasq stops, some 0.1 s, is refused; with nft it waits")
		}
	}
	p.port = append(p.port, maskStep(h, dnsmasqUnit))
	return p
}
