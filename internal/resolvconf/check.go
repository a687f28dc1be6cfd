package resolvconf

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Fault is a problem with a resolv.conf, and its fix.
type Fault struct {
	What, Fix string
	Maybe     bool // the problem may be harmless
}

func fault(fix, format string, args ...any) Fault {
	return Fault{What: fmt.Sprintf(format, args...), Fix: fix}
}

// Checks are the inputs for checking a resolv.conf.
type Checks struct {
	IsNode  func(netip.Addr) bool // reports an address of this node, including loopback
	Answers func(netip.Addr) bool // reports whether node-dns listens there at port 53
	// HostFile is the kubelet's resolvConf, or "" if pods get nothing from the host's file. Unread
	// is why HostFile cannot be read, or "". Setting is where HostFile is set, or would be.
	HostFile, Unread, Setting string
	// Missing reports whether HostFile does not exist. Writes reports whether origin-dns-dispatcher
	// is about to write Hooks.
	Missing, Writes bool
	// NamesNode reports whether Hooks names this node, because a pod can query none of its
	// upstreams, such as those over TLS.
	NamesNode bool
	Hooks     string
	// Originals is the file with the node's original nameservers, or "" if there is none.
	Originals string
	// Uplinks is systemd-resolved's file with its own nameservers, or "" if there is none.
	Uplinks string
}

// Pod returns the faults of an ordinary pod's resolv.conf, and of the file that the kubelet derives
// it from.
func (c Checks) Pod(k Kubelet, conf Content) []Fault {
	if k.NoFile && slices.Equal(conf.Search, []string{"."}) && len(conf.Nameservers) == 1 && conf.Nameservers[0].IsLoopback() { // the kubelet wrote it itself
		return []Fault{{
			What: `the kubelet's resolvConf is "", so a pod that uses the node's nameservers has none`,
			Fix:  "point the kubelet at a file (" + c.Setting + "), or use another dnsPolicy for the pod",
		}}
	}
	faults := c.Host(k)
	for _, addr := range conf.Nameservers {
		if addr.IsLoopback() {
			faults = append(faults, fault("set the kubelet's clusterDNS to an address of this node that pods can reach",
				"pods get the nameserver %s, which is the pod itself; nothing answers there", addr))
		}
	}
	return slices.Concat(faults, common(conf), limits(k.Limits, conf))
}

// Host returns the faults of the file for pods with dnsPolicy Default, which include the cluster's
// own DNS servers.
func (c Checks) Host(k Kubelet) []Fault {
	fix := c.hostFix()
	switch {
	case c.HostFile == "":
		return nil
	case c.Missing:
		if c.HostFile == c.Hooks {
			fix = `run "origin-dns-dispatcher apply" to create it`
		}
		return []Fault{{What: "the kubelet's resolvConf " + c.HostFile + " does not exist, so no pod can start", Fix: fix}}
	case c.Unread != "":
		return []Fault{{
			fmt.Sprintf("the kubelet's resolvConf %s cannot be read here (%s); if the kubelet cannot read it either, no pod starts", c.HostFile, c.Unread),
			"check whether root can read it; if not, " + fix, true,
		}}
	case len(k.Host.Nameservers) == 0:
		return []Fault{{fmt.Sprintf("the kubelet's resolvConf %s lists no nameserver, so a pod with dnsPolicy Default queries itself", c.HostFile), fix, true}}
	}
	return c.hostNames(k, fix)
}

// hostFix returns the fix for the kubelet's resolvConf.
func (c Checks) hostFix() string {
	better, whose := c.Originals, "the original nameservers"
	if c.NamesNode {
		whose = "this node, because pods can query none of the upstreams"
	}
	if c.Uplinks != "" {
		better, whose = c.Uplinks, "systemd-resolved's own"
	}
	fix := "point it at a file with the nameservers that the network gave this node"
	switch {
	case better == "" && c.Hooks != "" && c.Hooks != c.HostFile && c.Writes:
		fix = "point it at " + c.Hooks + `, to which "origin-dns-dispatcher apply" writes the original nameservers`
	case better != "" && better != c.HostFile:
		fix = fmt.Sprintf("point it at %s, which has %s", better, whose)
	}
	return fix + ": " + c.Setting + "; then restart the kubelet and the pods"
}

// hostNames returns the faults of the nameservers in the kubelet's resolvConf.
func (c Checks) hostNames(k Kubelet, fix string) (faults []Fault) {
	var own, loopback []netip.Addr
	for _, addr := range k.Host.Nameservers {
		switch {
		case addr.IsLoopback():
			loopback = append(loopback, addr)
		case c.IsNode(addr) && !(c.NamesNode && c.HostFile == c.Hooks):
			own = append(own, addr)
		}
	}
	if len(own) > 0 {
		which := "this node (" + words(own) + ")"
		what := fmt.Sprintf("the kubelet's resolvConf %s names %s instead of the original nameservers: pods with dnsPolicy Default, such as "+
			"the cluster's DNS servers, have no other nameserver", c.HostFile, which)
		if slices.ContainsFunc(own, func(addr netip.Addr) bool { return slices.Contains(k.DNS, addr) }) {
			what += ", and pods that also use clusterDNS list this node twice"
		}
		faults = append(faults, Fault{What: what, Fix: fix})
	}
	if len(loopback) > 0 {
		faults = append(faults, fault(fix,
			"the kubelet's resolvConf %s names %s, which in a pod with dnsPolicy Default is the pod itself; nothing answers there", c.HostFile, words(loopback)))
	}
	return faults
}

// Node returns the faults of this node's own resolv.conf.
func (c Checks) Node(conf Content) []Fault {
	var faults []Fault
	here := slices.ContainsFunc(conf.Nameservers, c.Answers)
	for _, addr := range conf.Nameservers {
		if c.IsNode(addr) && !addr.IsLoopback() && !c.Answers(addr) {
			faults = append(faults, fault(`run "node-dns status" to see where it listens, and why`, "%s is this node, but node-dns does not listen there", addr))
		}
	}
	if !here && len(conf.Nameservers) > 0 {
		faults = append(faults, fault(`run "origin-dns-dispatcher plan" to see why /etc/resolv.conf does not name this node`,
			"processes on this node query %s instead of node-dns; the output shows what node-dns would answer", words(conf.Nameservers)))
	}
	if len(conf.Nameservers) == 0 {
		faults = append(faults, fault(`run "origin-dns-dispatcher plan" to see what it should name`, "it lists no nameserver, so C libraries query 127.0.0.1"))
	}
	return append(faults, common(conf)...)
}

// common returns the faults that any resolv.conf may have.
func common(conf Content) (faults []Fault) {
	seen := map[netip.Addr]bool{}
	for _, addr := range conf.Nameservers {
		if seen[addr] {
			faults = append(faults, fault("list it once", "%s is listed twice: musl sends it every query twice, and glibc retries it after a timeout", addr))
		}
		seen[addr] = true
	}
	if n := len(conf.Nameservers); n > maxServers {
		faults = append(faults, fault("remove those that are not needed",
			"%d nameservers: C libraries use only the first %d, never %s", n, maxServers, words(conf.Nameservers[maxServers:])))
	}
	if slices.Contains(conf.Search, ".") {
		faults = append(faults, fault("remove it; systemd-resolved writes it for an empty list",
			"the search list contains the root (.): musl (Alpine) then queries a name that ends in two dots, which never exists"))
	}
	if line := len("search " + strings.Join(conf.Search, " ")); line > muslLine {
		faults = append(faults, fault("shorten the list",
			"the search line has %d characters: musl (Alpine) ignores lines longer than %d and then has no search list", line, muslLine))
	}
	return faults
}

// limits returns the parts that a kubelet drops.
func limits(l Limits, conf Content) (faults []Fault) {
	if kept := len(l.Cut(conf).Search); kept < len(conf.Search) {
		faults = append(faults, fault("shorten the search list of the kubelet's resolvConf",
			"%d search domains with %d characters: the kubelet passes on %d (limits: %d domains, %d characters) and drops %s",
			len(conf.Search), len(strings.Join(conf.Search, " ")), kept, l.Domains, l.Chars, strings.Join(conf.Search[kept:], " ")))
	}
	return faults
}

func words(addrs []netip.Addr) string {
	texts := make([]string, len(addrs))
	for i, addr := range addrs {
		texts[i] = addr.String()
	}
	return strings.Join(texts, " ")
}
