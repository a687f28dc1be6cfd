package doctor

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/admin/firewall"
	"github.com/node-dns/node-dns/internal/intercept"
	"github.com/node-dns/node-dns/internal/netstate"
)

const nodeDNSYAML = "/etc/node-dns/node-dns.yaml"

// maxListed limits the pods that a finding lists. A node may have hundreds.
const maxListed = 4

// checkClients checks whether pods may send queries, and whether they and this host can reach the
// daemon. It uses the pods' networks, the clients refused in the last minute, and queries from
// within pods and from this host.
func checkClients(s Snapshot) []Finding {
	if s.Status == nil {
		return nil
	}
	found := s.refusedClients()
	isFiltered := hasFailure(checkInputFilter(s)) // that finding explains why pods get no answer
	if what := s.FromHost.failure(); what != "" && !isFiltered && !hasFailure(checkPort(s)) {
		fix := fmt.Sprintf("allow port 53 from this host to %s in its firewall (nft list ruleset)", s.FromHost.Server.Addr())
		found = append(found, fail("this host gets "+what, fix))
	}
	found = append(found, s.silencedPods(isFiltered)...)
	if len(found) > 0 || len(s.Pods) == 0 || isFiltered {
		return found
	}
	return fine("pods get answers over UDP and TCP (queried from %s)", clientsOf(s.Pods))
}

// silencedPods returns a Finding for each way in which pods get no answer. If no pod gets an
// answer, this node is probably the cause; isFiltered means that another check reports it.
// Otherwise a network policy may deny it to these pods, even on purpose.
func (s Snapshot) silencedPods(isFiltered bool) []Finding {
	type key struct {
		server netip.AddrPort
		what   string
	}
	var keys []key
	silenced := map[key][]LocalProbe{}
	all, failed := map[netip.AddrPort]int{}, map[netip.AddrPort]int{}
	for _, p := range s.Pods {
		if !p.Client.IsValid() {
			continue
		}
		all[p.Server]++
		what := p.failure()
		if what == "" {
			continue
		}
		failed[p.Server]++
		k := key{p.Server, what}
		if silenced[k] == nil {
			keys = append(keys, k)
		}
		silenced[k] = append(silenced[k], p)
	}
	var found []Finding
	for _, k := range keys {
		pods := silenced[k]
		var who, details []string
		for _, p := range pods {
			who = append(who, cmp.Or(p.Pod, p.Client.String()))
			details = append(details, p.origin())
		}
		details = firstOf(maxListed, details)
		if failed[k.server] == all[k.server] {
			if isFiltered {
				continue
			}
			fix := fmt.Sprintf("allow port 53 from %s to %s in this node's firewall (nft list ruleset) and in network policies", clientsOf(pods), pods[0].allowed())
			found = append(found, fail("pods get "+k.what, fix, details...))
			continue
		}
		fix := fmt.Sprintf("allow port 53 to %s in the network policies of %s, unless these deny DNS on purpose", pods[0].allowed(), strings.Join(firstOf(maxListed, who), ", "))
		if pods[0].Mode != "" {
			fix += " (docs/howto/intercept.md)"
		}
		found = append(found, warn(fmt.Sprintf("%d of %d pods get %s", len(pods), all[k.server], k.what), fix, details...))
	}
	return found
}

// allowed returns the destination that network policies must allow. Rules of the host, such as
// those of Calico, see a packet after its translation.
func (p LocalProbe) allowed() string {
	if p.Mode == string(intercept.Translated) {
		return "this node's address"
	}
	return p.Server.Addr().String()
}

// origin describes from where a query was sent.
func (p LocalProbe) origin() string {
	return control.ClientText("queried from "+p.Client.String()+" in "+p.Namespace, p.Pod)
}

// clientsOf returns the addresses of pods.
func clientsOf(pods []LocalProbe) string {
	var from []string
	for _, p := range pods {
		if client := p.Client.String(); !slices.Contains(from, client) {
			from = append(from, client)
		}
	}
	return strings.Join(firstOf(maxListed, from), ", ")
}

// firstOf returns the first words, and how many more there are.
func firstOf(most int, words []string) []string {
	if more := len(words) - most; more > 0 {
		return append(slices.Clone(words[:most]), fmt.Sprintf("and %d more", more))
	}
	return words
}

// failure returns which answer is missing, or "".
func (p LocalProbe) failure() string {
	udp, tcp := p.UDP.Err, p.TCP.Err
	switch {
	case udp != nil && tcp != nil:
		return fmt.Sprintf("no answer from %s: %v", p.Server, udp)
	case udp != nil:
		return fmt.Sprintf("no answer from %s over UDP: %v", p.Server, udp)
	case tcp != nil:
		return fmt.Sprintf("no answer from %s over TCP: %v", p.Server, tcp)
	}
	return ""
}

// refusedClients returns one failure for all clients that should be allowed to send queries but are
// refused, and a warning for other refused clients.
func (s Snapshot) refusedClients() []Finding {
	var networks []netip.Prefix
	var details []string
	refuse := func(network netip.Prefix, detail string) {
		if !slices.Contains(networks, network) {
			networks = append(networks, network)
		}
		details = append(details, detail)
	}
	for _, link := range s.podLinks() {
		if !s.mayAsk(link.Clients) {
			refuse(link.Clients, fmt.Sprintf("pods on %s have addresses in %s", link.Interface, link.Clients))
		}
	}
	for _, p := range s.Pods {
		if p.UDP.Rcode == "REFUSED" || p.TCP.Rcode == "REFUSED" {
			refuse(s.networkOf(p.Client), fmt.Sprintf("%s refused a query (REFUSED) from %s, the address of a pod in %s", p.Server, p.Client, p.Namespace))
		}
	}
	var found []Finding
	l := s.Status.LastMinute
	if stranger, err := netip.ParseAddr(s.Status.Queries.Limits.Stranger); err == nil && l != nil && l.Strangers > 0 && !s.mayAsk(netip.PrefixFrom(stranger, stranger.BitLen())) {
		pod := s.Status.Queries.Limits.StrangerPod
		detail := fmt.Sprintf("queries refused in the last minute: %d, for example from %s", l.Strangers, control.ClientText(stranger.String(), pod))
		if pod != "" || s.isPodAddr(stranger) {
			refuse(s.networkOf(stranger), detail)
		} else {
			found = append(found, warn(detail+": not in allowFrom", "if it is a client, add it to allowFrom in "+nodeDNSYAML))
		}
	}
	if len(networks) == 0 {
		return found
	}
	what := fmt.Sprintf("pods may not query this node: allowFrom (%s) does not include %s", s.Host.State.Config.Where("allowFrom"), strings.Join(control.Texts(networks), ", "))
	return append(found, fail(what, fmt.Sprintf("set allowFrom: [%[2]s] in %[1]s; the daemon reloads it automatically", nodeDNSYAML, s.wider(networks)), details...))
}

// podLinks returns the links on which packets from pods arrive.
func (s Snapshot) podLinks() []firewall.Link {
	return slices.DeleteFunc(s.Host.Nameserver().Links(), func(l firewall.Link) bool { return !l.IsPods() })
}

// isPodAddr reports whether addr is in podCIDRs or on a link to pods. Any other network of this
// node may be a LAN, which must not be able to use the resolver.
func (s Snapshot) isPodAddr(addr netip.Addr) bool {
	return slices.ContainsFunc(s.Host.State.Config.PodCIDRs, func(p netip.Prefix) bool { return p.Contains(addr) }) ||
		slices.ContainsFunc(s.podLinks(), func(l firewall.Link) bool { return l.Clients.Contains(addr) })
}

// mayAsk reports whether the daemon answers every address of network.
func (s Snapshot) mayAsk(network netip.Prefix) bool {
	clients := s.Status.Clients
	return slices.Contains(clients.AllowFrom, "all") || slices.ContainsFunc(clients.Networks, func(text string) bool {
		allowed, err := netip.ParsePrefix(text)
		return err == nil && allowed.Bits() <= network.Bits() && allowed.Contains(network.Addr())
	})
}

// networkOf returns the network of this node that contains addr, except for the network of the
// default route. If there is none, it returns addr alone.
func (s *Snapshot) networkOf(addr netip.Addr) netip.Prefix {
	config, net := s.Host.State.Config, s.Host.State.Net
	for _, network := range config.PodCIDRs {
		if network.Contains(addr) {
			return network
		}
	}
	for _, a := range net.Addrs {
		network := netip.PrefixFrom(a.Addr.WithZone(""), a.Bits).Masked()
		if a.Interface != net.DefaultInterface() && network.Contains(addr) {
			return network
		}
	}
	return netip.PrefixFrom(addr, addr.BitLen())
}

// widest is the shortest prefix of a route that may lead to pods. VPNs install routes to half of
// all addresses.
const widest = 8

// isNear reports whether addr is in podCIDRs or reached through an interface other than that of the
// default route.
func (s *Snapshot) isNear(addr netip.Addr) bool {
	net := s.Host.State.Net
	isDirect := slices.ContainsFunc(net.OnLink, func(l netstate.OnLink) bool {
		return l.Interface != net.DefaultInterface() && l.Network.Bits() >= widest && l.Network.Contains(addr)
	})
	return isDirect || s.networkOf(addr) != netip.PrefixFrom(addr, addr.BitLen())
}

// wider returns the value of allowFrom with networks added.
func (s Snapshot) wider(networks []netip.Prefix) string {
	words := append(slices.Clone(s.Status.Clients.AllowFrom), control.Texts(networks)...)
	for i, word := range words {
		if strings.Contains(word, ":") {
			words[i] = `"` + word + `"` // YAML forbids a colon in a plain scalar of a flow sequence
		}
	}
	return strings.Join(words, ", ")
}
