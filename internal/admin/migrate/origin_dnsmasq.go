package migrate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/node-dns/node-dns/internal/hostdns"
	"github.com/node-dns/node-dns/internal/resolvconf"
	"github.com/node-dns/node-dns/internal/upstream"
)

const (
	daemonUnit  = "node-dns.service"
	applyPath   = "node-dns-apply.path"
	applyUnit   = "node-dns-apply.service"
	dnsmasqUnit = "dnsmasq.service"
)

// plainDnsmasq is a dnsmasq.service outside OpenShift. The dnsmasq processes of libvirt,
// NetworkManager and podman run in other units.
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

// runsDnsmasq reports whether dnsmasq.service answers here, or would after the next boot. An active
// one without port 53 (port=0) serves only DHCP or TFTP.
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
		lines = append(lines, "it uses port 53 of "+strings.Join(slices.Compact(at), ", "))
	}
	return lines
}

// giveUpDnsmasq takes port 53 over from dnsmasq.service and keeps it from starting again, if it
// runs.
func giveUpDnsmasq(h Host) (p part) {
	if !runsDnsmasq(h) {
		return p
	}
	if h.holds(dnsmasqUnit, portDHCP, portTFTP, portDHCPv6) {
		p.refused = append(p.refused, dnsmasqUnit+" also serves DHCP or TFTP, which node-dns does not: set port=0 in its files and "+
			"restart it, which frees port 53, or move these to another service")
	}
	if h.holds(dnsmasqUnit, portDNS) {
		p.port = append(p.port, takeStep(h, dnsmasqUnit))
		if !h.HasNFT {
			p.notes = append(p.notes, "nft(8) is not installed: TCP connections that start while dnsmasq stops (about 0.1 s) are refused; with nft they wait")
		}
	}
	p.port = append(p.port, maskStep(h, dnsmasqUnit))
	return p
}

// Files of openshift-ansible on a node (3.6 to 3.11).
const (
	oldHook    = "/etc/NetworkManager/dispatcher.d/99-origin-dns.sh"
	oldSnippet = "/etc/NetworkManager/conf.d/99-origin.conf"
	oldBase    = "/etc/dnsmasq.d/origin-dns.conf"
)

// openshift3 is NetworkManager's hook 99-origin-dns.sh with dnsmasq, which every node of OpenShift
// 3 has.
func openshift3() origin {
	return origin{
		name:  "openshift3",
		files: []string{oldHook, oldSnippet, oldBase},
		units: []string{dnsmasqUnit},
		find:  findOpenshift3,
		steps: func(h Host) part {
			p := giveUpDnsmasq(h)
			if h.Files[oldHook].Exists {
				p.before = append(p.before, removeStep(oldHook, "it would start dnsmasq again at the next event of NetworkManager"))
			}
			p.notes = append(p.notes, lostUpstreams(h)...)
			p.release(h, oldSnippet, dnsNone)
			return p
		},
	}
}

func findOpenshift3(h Host) []Finding {
	hook, snippet := h.Files[oldHook].Exists, h.Files[oldSnippet].Exists
	if !hook && !(snippet && runsDnsmasq(h)) {
		return nil
	}
	f := Finding{Origin: "openshift3", What: "99-origin-dns.sh with dnsmasq (OpenShift 3)"}
	f.say(hook, "%s is NetworkManager's hook", oldHook)
	resolv := h.State.ResolvConf.Data
	f.say(resolvconf.Parse(resolv).HasLine(hostdns.LegacyWatermark), "/etc/resolv.conf has its line: %s", strings.Join(nameservers(resolv), " "))
	f.say(setsOnly(h.Files[oldSnippet], dnsNone), "%s keeps NetworkManager from writing /etc/resolv.conf (dns=none)", oldSnippet)
	f.Evidence = append(f.Evidence, dnsmasqEvidence(h)...)
	return []Finding{f}
}

// lostUpstreams returns upstreams of dnsmasq that node-dns would not use. The script never updates
// its list, and admins edit it.
func lostUpstreams(h Host) []string {
	captured, _ := upstream.ParseDnsmasqConf(h.State.Upstreams.Data) // dnsmasq ignores invalid lines as well
	if len(h.State.Config.Upstreams) > 0 {
		return nil // an admin has chosen the upstreams
	}
	var lost []string
	for _, server := range captured.Servers {
		if !slices.Contains(h.Plan.Selection.Set.Servers, server) {
			lost = append(lost, server.String())
		}
	}
	if len(lost) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("dnsmasq asks %s, which %s no longer names: set `upstreams` in /etc/node-dns/node-dns.yaml to keep them",
		strings.Join(lost, ", "), h.Plan.Selection.Origin)}
}

func nameservers(text []byte) []string {
	var all []string
	for _, addr := range resolvconf.Parse(text).Nameservers() {
		all = append(all, addr.String())
	}
	return all
}

// Files of the assisted installer's 50-master-dnsmasq-configuration (Single Node OpenShift, 4.8 and
// later), also used in guides for admins.
const (
	forcednsHook     = "/etc/NetworkManager/dispatcher.d/forcedns"
	singleNodeConf   = "/etc/NetworkManager/conf.d/single-node.conf"
	singleNodeNames  = "/etc/dnsmasq.d/single-node.conf"
	singleNodeOrigin = "single-node"
)

// singleNode is forcedns, a hook that makes the node's address the first nameserver, with a dnsmasq
// that knows the cluster's api, api-int and *.apps.
func singleNode() origin {
	return origin{
		name:  singleNodeOrigin,
		files: []string{forcednsHook, singleNodeConf, singleNodeNames, apiServerPod, machineConfigNow},
		units: []string{dnsmasqUnit},
		find:  findSingleNode,
		steps: func(h Host) part {
			if h.Files[machineConfigNow].Exists {
				return part{
					told:    h.holdersWhere(func(holder Holder) bool { return holder.Unit == dnsmasqUnit }),
					refused: []string{ownedByMachineConfig},
					owner:   singleNodeOwner(h),
				}
			}
			p := giveUpDnsmasq(h)
			p.before = []Step{removeStep(forcednsHook, "it would write /etc/resolv.conf at the next event of NetworkManager")}
			p.release(h, singleNodeConf, rcUnmanaged)
			return p
		},
	}
}

// hasForcedns reports whether the hook exists and is not the replacement from our machine config.
func (h Host) hasForcedns() bool {
	hook := h.Files[forcednsHook]
	return hook.Exists && string(hook.Data) != doNothing
}

func findSingleNode(h Host) []Finding {
	if !h.hasForcedns() {
		return nil
	}
	f := Finding{Origin: singleNodeOrigin, What: "forcedns with dnsmasq (Single Node OpenShift)"}
	f.say(true, "%s is NetworkManager's hook: it writes /etc/resolv.conf", forcednsHook)
	f.say(setsOnly(h.Files[singleNodeConf], rcUnmanaged), "%s keeps NetworkManager from writing it (rc-manager=unmanaged)", singleNodeConf)
	f.Evidence = append(f.Evidence, dnsmasqEvidence(h)...)
	f.say(h.Files[singleNodeNames].Exists, "%s has the cluster's own names; it can stay: node-dns also answers them", singleNodeNames)
	f.say(h.Files[machineConfigNow].Exists, "the machine-config daemon manages this node (%s)", machineConfigNow)
	return []Finding{f}
}

// singleNodeOwner returns the steps with a machine config. dnsmasq's file of names stays with the
// installer.
func singleNodeOwner(h Host) []string {
	const role = "master" // role of the only node
	return []string{
		"add node-dns to the node's image, or install its package on the node; it changes nothing until it is enabled",
		"oc apply -f - with the following text; the node restarts with node-dns:\n" + h.machineConfig(role, nil),
		"oc wait machineconfigpool/" + role + " --for=condition=Updated --timeout=2h; to undo: oc delete machineconfig 99-" + role + "-node-dns",
	}
}

// Settings that keep NetworkManager from writing resolv.conf.
const (
	dnsNone     = "dns=none"
	rcUnmanaged = "rc-manager=unmanaged"
)

// release removes a file whose setting keeps NetworkManager from writing resolv.conf.
func (p *part) release(h Host, path, setting string) {
	switch file := h.Files[path]; {
	case setsOnly(file, setting):
		p.after = append(p.after, releaseStep(path, setting))
	case file.Exists:
		p.notes = append(p.notes, path+" contains more than "+setting+" and stays: NetworkManager does not write /etc/resolv.conf")
	}
}

// setsOnly reports whether a NetworkManager file contains only this setting, in [main].
func setsOnly(f hostdns.File, setting string) bool {
	const blanks = " \t\f\r"
	found := false
	for line := range strings.Lines(string(f.Data)) {
		line = strings.TrimSpace(line)
		key, value, _ := strings.Cut(line, "=")
		switch {
		case line == "", line[0] == '#', line[0] == ';', line == "[main]":
		case strings.TrimRight(key, blanks)+"="+strings.TrimLeft(value, blanks) == setting:
			found = true
		default:
			return false
		}
	}
	return found
}
