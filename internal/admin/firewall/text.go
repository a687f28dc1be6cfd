package firewall

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/node-dns/node-dns/internal/sys/termtext"
)

// maxNamed limits the names in a list.
const maxNamed = 4

// finding describes one cause.
func (v victims) finding(s State, n Nameserver) Finding {
	f := Finding{Drops: v.drops, Expected: v.links[0].kind != guessed, Fix: v.fix()}
	switch {
	case v.drops && v.zone != "":
		f.What = fmt.Sprintf("firewalld drops %s: zone %s does not allow %s", v.packets(), v.zone, v.service())
	case v.drops:
		f.What = fmt.Sprintf("%v drops %s", v.chain, v.packets())
	case v.zone != "":
		f.What = fmt.Sprintf("firewalld may drop %s: zone %s has rules that were not evaluated (%s)", v.packets(), v.zone, v.why)
	case v.legacy != "":
		f.What = fmt.Sprintf("%s may drop %s: node-dns cannot read its rules", v.legacy, v.packets())
	default:
		f.What = fmt.Sprintf("%v may drop %s: it has rules that were not evaluated (%s)", v.chain, v.packets(), v.why)
	}
	f.Details = []string{"clients in " + strings.Join(first(v.networks()), ", ")}
	if !f.Expected {
		f.Details = append(f.Details, "this is a guess: podCIDRs in /etc/node-dns/node-dns.yaml does not contain the pods' networks")
	}
	if v.drops {
		f.Details = append(f.Details, v.advice(s, n)...)
	}
	return f
}

// first shortens a list to maxNamed names.
func first(names []string) []string {
	if len(names) > maxNamed {
		return append(names[:maxNamed:maxNamed], fmt.Sprintf("%d more", len(names)-maxNamed))
	}
	return names
}

// packets names the packets that do not arrive.
func (v victims) packets() string {
	text := "DNS"
	if v.port != dnsPort {
		text = fmt.Sprintf("port %d", v.port)
	}
	if len(v.protocols) == 1 {
		text += " over " + strings.ToUpper(v.protocols[0])
	}
	who := "clients"
	if v.links[0].kind == ofPods {
		who = "pods"
	}
	return fmt.Sprintf("%s from %s on %s", text, who, strings.Join(first(v.names()), ", "))
}

// names returns the interfaces.
func (v victims) names() []string {
	var all []string
	for _, l := range v.links {
		all = with(all, l.Interface)
	}
	return all
}

// Names returns the interfaces of links, shortened for display.
func Names(links []Link) []string { return first(victims{links: links}.names()) }

// networks returns the clients' networks.
func (v victims) networks() []string {
	var all []string
	for _, l := range v.links {
		all = with(all, l.Clients.String())
	}
	return all
}

// service names what a zone would have to allow.
func (v victims) service() string {
	if v.port == dnsPort {
		return "service dns"
	}
	return fmt.Sprintf("port %d", v.port)
}

// fix returns a command that opens the filter, or one that shows more of it.
func (v victims) fix() string {
	switch {
	case v.zone != "" && v.drops:
		return v.firewallCmd(v.options("--add-service=dns", "--add-port=%d/%s"))
	case v.zone != "":
		return "run this as root and check whether the zone accepts it: firewall-cmd --zone=" + termtext.Quote(v.zone) + " --list-all"
	case v.legacy != "":
		return "check whether it accepts port " + fmt.Sprint(v.port) + ": " + v.legacy + " -S INPUT"
	case !v.drops:
		return fmt.Sprintf("check whether it accepts port %d: nft list chain %v %s %s", v.port, v.chain.Family, termtext.Quote(v.chain.Table), termtext.Quote(v.chain.Name))
	case v.chain.Table == firewalldTable:
		return "firewalld does not answer over D-Bus: systemctl restart firewalld, then run this again"
	}
	return strings.Join(v.rules(), " && ")
}

// firewallCmd returns a command that changes a zone permanently and immediately.
func (v victims) firewallCmd(options []string) string {
	return "firewall-cmd --permanent --zone=" + termtext.Quote(v.zone) + " " + strings.Join(options, " ") + " && firewall-cmd --reload"
}

// options returns the options of firewall-cmd(1) that open the port. firewalld has a service for
// port 53.
func (v victims) options(service, port string) []string {
	if v.port == dnsPort {
		return []string{service}
	}
	var all []string
	for _, protocol := range v.protocols {
		all = append(all, fmt.Sprintf(port, v.port, protocol))
	}
	return all
}

// rules returns commands that insert rules at the start of the chain.
func (v victims) rules() []string {
	var all []string
	for _, name := range v.patterns() {
		if !v.chain.isIPTables("INPUT") {
			all = append(all, "nft "+termtext.Quote(fmt.Sprintf("insert rule %v %s %s iifname \"%s\" meta l4proto { %s } th dport %d accept",
				v.chain.Family, v.chain.Table, v.chain.Name, name, strings.Join(v.protocols, ", "), v.port)))
			continue
		}
		for _, protocol := range v.protocols {
			all = append(all, fmt.Sprintf("%s -I INPUT -i %s -p %s --dport %d -j ACCEPT",
				iptables[v.chain.Family], termtext.Quote(strings.Replace(name, "*", "+", 1)), protocol, v.port))
		}
	}
	return all
}

// isIPTables reports whether the chain is iptables-nft(8)'s own with this name.
func (c Chain) isIPTables(name string) bool {
	return c.Family != Inet && c.Table == "filter" && c.Name == name
}

// AcceptOutput returns commands that make every filter of this host's own packets accept those to a
// port. It returns "" if no filter is known.
func (r *Ruleset) AcceptOutput(port uint16) string {
	if r == nil {
		return ""
	}
	var all []string
	for _, c := range r.Outputs {
		if !c.isIPTables("OUTPUT") {
			all = append(all, "nft "+termtext.Quote(fmt.Sprintf("insert rule %v %s %s meta l4proto { tcp, udp } th dport %d accept", c.Family, c.Table, c.Name, port)))
			continue
		}
		for _, protocol := range protocols {
			all = append(all, fmt.Sprintf("%s -I OUTPUT -p %s --dport %d -j ACCEPT", iptables[c.Family], protocol, port))
		}
	}
	return strings.Join(all, " && ")
}

// iptables maps a family to its program.
var iptables = map[Family]string{IPv4: "iptables", IPv6: "ip6tables"}

// patterns returns the interfaces as rules name them. A network plugin may create one interface per
// pod; many of them become a wildcard.
func (v victims) patterns() []string {
	names := v.names()
	if len(names) <= maxNamed {
		return names
	}
	var all []string
	for _, name := range names {
		if i := slices.IndexFunc(podInterfaces, func(p string) bool { return strings.HasPrefix(name, p) }); i >= 0 {
			name = podInterfaces[i] + "*"
		}
		all = with(all, name)
	}
	return all
}

// advice returns further hints on opening the filter.
func (v victims) advice(s State, n Nameserver) []string {
	if v.zone == "" {
		file := "/etc/sysconfig/nftables.conf"
		if v.chain.isIPTables("INPUT") {
			file = "/etc/sysconfig/" + iptables[v.chain.Family]
		}
		if v.chain.Table == firewalldTable {
			return nil
		}
		return []string{"the next boot removes the rule: also add it to " + file + ", or to the tool that writes these rules"}
	}
	outside := n.Net.DefaultInterface()
	if outside == "" || slices.Contains(v.names(), outside) {
		return nil
	}
	if z, _ := s.Firewalld.zoneOf(outside, netip.Addr{}); z.Name != v.zone {
		return nil
	}
	var options []string
	for _, network := range v.sources(n) {
		family := "ipv4"
		if network.Addr().Is6() {
			family = "ipv6"
		}
		for _, element := range v.options(`service name="dns"`, `port port="%d" protocol="%s"`) {
			options = append(options, "--add-rich-rule="+termtext.Quote(fmt.Sprintf(`rule family="%s" source address="%v" %s accept`, family, network, element)))
		}
	}
	return []string{fmt.Sprintf("zone %s also contains %s, the interface of the default route; to allow only these clients: %s", v.zone, outside, v.firewallCmd(options))}
}

// sources returns the clients' networks, widened to podCIDRs for pods.
func (v victims) sources(n Nameserver) []netip.Prefix {
	var all []netip.Prefix
	for _, l := range v.links {
		network := l.Clients
		for _, p := range n.PodCIDRs {
			if within(network, []netip.Prefix{p}) {
				network = p
			}
		}
		all = with(all, network)
	}
	return all
}
