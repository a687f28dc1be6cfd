package migrate

import (
	"strings"

	"github.com/node-dns/node-dns/internal/hostdns"
)

// What the assisted installer's machine config 50-master-dnsmasq-configuration has on a Single Node OpenShift (4.8 and later), and what
// guides have an admin write by hand.
const (
	forcednsHook     = "/etc/NetworkManager/dispatcher.d/forcedns"
	singleNodeConf   = "/etc/NetworkManager/conf.d/single-node.conf"
	singleNodeNames  = "/etc/dnsmasq.d/single-node.conf"
	singleNodeOrigin = "single-node"
)

// singleNode is forcedns, a hook of NetworkManager that puts the node's address before the nameservers of the network, with a dnsmasq that
// knows api, api-int and *.apps of the cluster.
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

// hasForcedns reports whether the hook is there, and not what a machine config of ours has put in its place.
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
	f.say(h.Files[singleNodeNames].Exists, "%s has the cluster's own names; it may stay: node-dns answers them too", singleNodeNames)
	f.say(h.Files[machineConfigNow].Exists, "the machine-config daemon looks after this node (%s)", machineConfigNow)
	return []Finding{f}
}

// singleNodeOwner is the way by the machine config. dnsmasq's file of names stays the installer's.
func singleNodeOwner(h Host) []string {
	const role = "master" // of the only node
	return []string{
		"bring node-dns into the node's image, or install its package on it; it changes nothing as long as it is not enabled",
		"oc apply -f - with what follows: the node is restarted, and comes up with node-dns:\n" + h.machineConfig(role, nil),
		"oc wait machineconfigpool/" + role + " --for=condition=Updated --timeout=2h; the way back is oc delete machineconfig 99-" + role + "-node-dns",
	}
}

// The settings with which a file keeps NetworkManager from writing resolv.conf.
const (
	dnsNone     = "dns=none"
	rcUnmanaged = "rc-manager=unmanaged"
)

// release gives resolv.conf back to NetworkManager, which a file with this setting keeps from writing it.
func (p *part) release(h Host, path, setting string) {
	switch file := h.Files[path]; {
	case setsOnly(file, setting):
		p.after = append(p.after, releaseStep(path, setting))
	case file.Exists:
		p.notes = append(p.notes, path+" has more in it than "+setting+" and stays: NetworkManager leaves /etc/resolv.conf to whom it says")
	}
}

// setsOnly reports whether a file of NetworkManager has this setting in [main], and nothing else.
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
