package migrate

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/node-dns/node-dns/internal/sys/termtext"
)

// Traces of NodeLocal DNSCache, a DaemonSet of Kubernetes, on a node
// (cluster/addons/dns/nodelocaldns, kubernetes/dns).
const (
	nodelocalLink    = "nodelocaldns" // -interfacename
	nodelocalProgram = "node-cache"
	nodelocalPods    = "/var/log/pods/*_node-local-dns-*" // the kubelet keeps it while the pod belongs to this node
	kubeDNS          = "the address of the kube-dns Service"
)

// nodelocalAddr is the cache's own address in its documentation. An IPv6 one has no default.
var nodelocalAddr = netip.AddrFrom4([4]byte{169, 254, 20, 10})

// nodelocal is NodeLocal DNSCache. While its pod runs on the node, the pod owns the link and the
// rules. If they are removed, the pod restores them within a minute, and pods have no nameserver
// until then. Leftovers (after it was killed, or with -skipteardown) stay until this migration
// removes them.
func nodelocal() origin {
	return origin{
		name:  "nodelocaldns",
		files: []string{nodelocalPods},
		find:  findNodelocal,
		steps: func(h Host) part {
			switch {
			case h.nodelocalRuns() && h.State.Config.Intercept.IsNone():
				return leaveNodelocal(h)
			case h.nodelocalRuns():
				return outliveNodelocal(h)
			}
			return takeNodelocal(h)
		},
	}
}

// nodelocalAddrs returns its addresses on this node, its own ones first.
func (h Host) nodelocalAddrs() []netip.Addr {
	links := []string{nodelocalLink}
	for _, holder := range h.Holders {
		for _, a := range h.State.Net.Addrs {
			if holder.Name == nodelocalProgram && holder.Addr.Port() == portDNS && holder.Addr.Addr() == a.Addr && a.Interface != "lo" && a.Interface != interceptLink {
				links = append(links, a.Interface)
			}
		}
	}
	var all []netip.Addr
	for _, a := range h.State.Net.Addrs {
		own := !a.Addr.IsLinkLocalUnicast() || a.Addr.Is4() // the kernel assigns a link-local IPv6 address to each link
		if own && slices.Contains(links, a.Interface) && !slices.Contains(all, a.Addr) {
			all = append(all, a.Addr)
		}
	}
	own, services := h.split(all)
	return append(own, services...)
}

// linkOf returns the link that has an address: the cache's, if node-dns-intercept also has it.
func (h Host) linkOf(addr netip.Addr) (link string) {
	for _, a := range h.State.Net.Addrs {
		if a.Addr == addr && (link == "" || a.Interface == nodelocalLink) {
			link = a.Interface
		}
	}
	return link
}

// lastRulesFirst sorts steps so that the undo, which runs backwards, restores the first rules of a
// chain first. iptables(8) refuses a position beyond the end of the chain.
func lastRulesFirst(steps []Step) {
	position := func(s Step) int {
		if len(s.Rules) == 0 {
			return 0
		}
		return s.Rules[0].Number
	}
	slices.SortStableFunc(steps, func(a, b Step) int { return position(b) - position(a) })
}

// nodelocalHolders returns the sockets of its program.
func (h Host) nodelocalHolders() []Holder {
	addrs := h.nodelocalAddrs()
	return h.holdersWhere(func(holder Holder) bool {
		at := slices.Contains(addrs, holder.Addr.Addr()) && holder.Unit != daemonUnit
		return holder.Addr.Port() == portDNS && (holder.Name == nodelocalProgram || at)
	})
}

func (h Host) nodelocalPod() string {
	for path := range h.Files {
		if strings.HasPrefix(path, "/var/log/pods/") && strings.Contains(path, "_node-local-dns-") {
			return path
		}
	}
	return ""
}

// nodelocalRuns reports whether the cluster runs it on this node.
func (h Host) nodelocalRuns() bool { return h.nodelocalPod() != "" || len(h.nodelocalHolders()) > 0 }

func (h Host) rulesOf(addr netip.Addr) []Rule {
	return slices.DeleteFunc(slices.Clone(h.Rules), func(r Rule) bool { return !r.names(addr) })
}

func findNodelocal(h Host) []Finding {
	addrs, pod := h.nodelocalAddrs(), h.nodelocalPod()
	if len(addrs) == 0 && pod == "" {
		return nil
	}
	f := Finding{Origin: "nodelocaldns", What: "leftovers of NodeLocal DNSCache"}
	if h.nodelocalRuns() {
		f.What = "NodeLocal DNSCache (a DaemonSet of the cluster)"
	}
	f.Evidence = heldLines(h.nodelocalHolders())
	f.say(pod != "", "its pod is on this node: %s", pod)
	for _, addr := range addrs {
		rules := ""
		if n := len(h.rulesOf(addr)); n > 0 {
			rules = fmt.Sprintf(", with %d iptables rules", n)
		}
		f.say(true, "the link %s has %v%s", h.linkOf(addr), addr, rules)
	}
	given := h.given(addrs)
	f.say(len(given) > 0, "the kubelet gives pods %s%s", words(given), h.saidIn("clusterDNS"))
	return []Finding{f}
}

// given returns those of the addresses that the kubelet gives to pods.
func (h Host) given(addrs []netip.Addr) []netip.Addr {
	return slices.DeleteFunc(slices.Clone(addrs), func(addr netip.Addr) bool { return !slices.Contains(h.State.Config.DNSIPs, addr) })
}

// saidIn returns the position in the cluster's file that sets a key, in parentheses, or "".
func (h Host) saidIn(key string) string {
	if source, ok := h.State.Config.ClusterSources[key]; ok {
		return fmt.Sprintf(" (%s:%d)", source.File, source.Line)
	}
	return ""
}

func words(addrs []netip.Addr) string {
	var all []string
	for _, addr := range addrs {
		all = append(all, addr.String())
	}
	return strings.Join(all, ", ")
}

// isServices reports whether addr belongs to the cluster DNS's Service. Without the link,
// kube-proxy handles such an address again. All others are the cache's own (169.254.20.10, or one
// in fd00::/8).
func (h Host) isServices(addr netip.Addr) bool {
	if slices.ContainsFunc(h.State.Config.ServiceCIDRs, func(p netip.Prefix) bool { return p.Contains(addr) }) {
		return true
	}
	return addr.Is4() && !addr.IsLinkLocalUnicast()
}

// split separates the cache's own addresses from those of Services.
func (h Host) split(addrs []netip.Addr) (own, services []netip.Addr) {
	own = slices.DeleteFunc(slices.Clone(addrs), h.isServices)
	services = slices.DeleteFunc(slices.Clone(addrs), func(addr netip.Addr) bool { return !h.isServices(addr) })
	return own, services
}

// cacheAddrs returns the cache's own addresses, which pods keep for life. While the cache restarts
// and its link is gone, they are those that the kubelet gives to pods.
func (h Host) cacheAddrs() []netip.Addr {
	own, _ := h.split(h.nodelocalAddrs())
	if len(own) == 0 {
		own, _ = h.split(slices.DeleteFunc(slices.Clone(h.State.Config.DNSIPs), h.isOwn))
	}
	if len(own) == 0 && h.State.Net.NodeIP().Is4() {
		return []netip.Addr{nodelocalAddr}
	}
	return own
}

// removeNodelocal is the command for a cluster administrator that removes it from this node.
func (h Host) removeNodelocal() string {
	return "kubectl label node " + h.nodeName() + " node-dns=serves, and once for the cluster: " +
		`kubectl -n kube-system patch daemonset node-local-dns --patch '{"spec":{"template":{"spec":{"affinity":{"nodeAffinity":` +
		`{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"node-dns","operator":"DoesNotExist"}]}]}}}}}}}'`
}

// BeforeUndo returns what an admin should know before node-dns stops intercepting the cache's
// addresses, or "".
func (h Host) BeforeUndo() string {
	place := h.State.Placement()
	if !place.Translate || h.nodelocalRuns() {
		return ""
	}
	return fmt.Sprintf("without NodeLocal DNSCache on this node, pods get no answers at its address (%s) until it is back: kubectl label node %s node-dns-", words(place.Intercept), h.nodeName())
}

// outliveNodelocal returns the steps if the cluster runs it and node-dns intercepts pods' queries.
// The cache answers until its pod removes its rules, and node-dns from then on.
func outliveNodelocal(h Host) part {
	p := part{told: h.nodelocalHolders()}
	p.before, p.refused = h.interceptStep()
	if h.adds.IsNone() { // an admin has set it
		p.refused = h.notInterceptable()
		place := h.State.Placement()
		for _, addr := range h.cacheAddrs() {
			if !place.Translate || !slices.Contains(place.Intercept, addr) {
				p.refused = append(p.refused, fmt.Sprintf("add %v, which pods keep asking, to intercept in %s", addr, ourConfig))
			}
		}
	}
	if len(p.refused) == 0 {
		p.then = []string{h.removeNodelocal() + ": its pod leaves this node, and node-dns answers at its addresses from then on. Pods and the kubelet keep their configuration"}
	}
	return p
}

// leaveNodelocal returns the steps if the cluster runs it and pods' queries cannot be intercepted:
// first node-dns in addition, then the pods, and the DaemonSet last.
func leaveNodelocal(h Host) part {
	own, services := h.split(h.nodelocalAddrs())
	node := h.State.Net.NodeIP()
	p := part{
		told:    h.nodelocalHolders(),
		refused: []string{"NodeLocal DNSCache belongs to the cluster: its pod restores everything that is removed from its link, and pods have no nameserver until then"},
	}
	yaml := fmt.Sprintf("listen: [%v]", node)
	if !h.knowsCluster() {
		yaml += ", and clusterDNS: [" + cmp.Or(words(services), kubeDNS) + "]"
	}
	if !h.Units[daemonUnit].IsActive() {
		p.owner = append(p.owner, fmt.Sprintf("on this node, in /etc/node-dns/node-dns.yaml: %s. Then systemctl enable --now node-dns: it answers on %v in addition to the cache", yaml, node))
	}
	if given := h.given(own); len(given) > 0 {
		p.owner = append(
			p.owner,
			fmt.Sprintf("on this node, for the kubelet: clusterDNS: [%v] instead of %s%s, then systemctl restart kubelet. "+
				"kubeadm keeps one value for all nodes: with kubeadm use --cluster-dns on each node (KUBELET_EXTRA_ARGS), or a patch", node, words(given), h.saidIn("clusterDNS")),
			"kubectl drain "+h.nodeName()+" --ignore-daemonsets --delete-emptydir-data && kubectl uncordon "+h.nodeName()+
				": existing pods still have "+words(given)+" and ask the cache until they are recreated",
		)
	}
	p.owner = append(p.owner, h.removeNodelocal()+": its pod leaves this node and removes the link, addresses and rules")
	for _, why := range h.notInterceptable() {
		p.notes = append(p.notes, "pods and the kubelet could keep their configuration, but "+why)
	}
	if given := h.given(services); len(given) > 0 {
		p.notes = append(p.notes, fmt.Sprintf("pods then ask the Service at %s, as without the cache; to make them ask node-dns, set the kubelet's clusterDNS: [%v]%s", words(given), node, h.saidIn("clusterDNS")))
	}
	return p
}

// takeNodelocal takes over leftovers. The address of a Service goes back to the Service. At the
// cache's own address node-dns answers if the kubelet gives it to pods; otherwise it is removed.
// With interception, all addresses are removed and then intercepted.
func takeNodelocal(h Host) part {
	addrs := h.nodelocalAddrs()
	own, services := h.split(addrs)
	given := h.given(own)
	var p part
	if !h.State.Config.Intercept.IsNone() {
		steps, refused := h.interceptStep()
		for _, addr := range addrs {
			p.before = append(p.before, dropStep(h.linkOf(addr), addr, h.rulesOf(addr), "no program answers there, and node-dns then intercepts queries to it"))
		}
		lastRulesFirst(p.before)
		p.gone, p.before, p.refused = addrs, append(p.before, steps...), refused
		return p
	}
	for _, addr := range services {
		p.before = append(p.before, dropStep(h.linkOf(addr), addr, h.rulesOf(addr), "no program answers there, and kube-proxy then handles this address of the cluster DNS Service again"))
	}
	for _, addr := range own {
		if !slices.Contains(given, addr) {
			p.before = append(p.before, dropStep(h.linkOf(addr), addr, h.rulesOf(addr), "no program answers there, and no pod gets this address"))
		}
	}
	lastRulesFirst(p.before)
	for _, step := range p.before {
		p.gone = append(p.gone, step.Addr)
	}
	if len(given) == 0 {
		return p
	}
	node := h.State.Net.NodeIP()
	p.notes = append(p.notes, fmt.Sprintf("the link %s exists until the next boot: before that, set listen: [%v, %s] in /etc/node-dns/node-dns.yaml, "+
		"and then the kubelet's clusterDNS: [%v]%s", h.linkOf(given[0]), node, words(given), node, h.saidIn("clusterDNS")))
	if len(h.given(services)) == 0 && !h.knowsCluster() {
		p.refused = append(p.refused, fmt.Sprintf("node-dns would not know the cluster's names: the kubelet has no nameserver other than %s. "+
			"Set clusterDNS: [%s] in /etc/node-dns/node-dns.yaml, or provide a kubeconfig (%s)", words(given), cmp.Or(words(services), kubeDNS), ourKubeconfig))
	}
	return p
}

// knowsCluster reports whether node-dns has a source for cluster names other than the addresses
// that the kubelet gives to pods.
func (h Host) knowsCluster() bool {
	return len(h.State.Config.ClusterDNS) > 0 || h.watchesAPI()
}

// nodeName returns the node's name in the API, quoted for a shell, or NODE if it is unknown.
func (h Host) nodeName() string {
	return termtext.Quote(cmp.Or(h.State.Config.Resolver.NodeName, "NODE"))
}
