package nm

import (
	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// A Snapshot is NetworkManager's state at one time. It is immutable by convention. The zero
// Snapshot is empty. Every list in it is bounded.
type Snapshot struct {
	// Version is NetworkManager's version, such as "1.42.4".
	Version string
	// State is the overall state in nmcli's words: "connected", "connected (local only)",
	// "connecting", "disconnected", …
	State string
	// Mode is the active dns= setting: "default", "none", "dnsmasq", "systemd-resolved", …
	Mode string
	// RcManager is the active rc-manager= setting, which says how NetworkManager writes
	// /etc/resolv.conf: "symlink", "file", "unmanaged", …
	RcManager string
	// Configs are the DNS configurations in NetworkManager's order, best priority first. With equal
	// priority, VPNs come first, then the interface with the best default route. NetworkManager
	// omits configurations without nameservers. Configs is also filled with dns=none.
	Configs []DNSConfig
}

// A DNSConfig is the DNS configuration of one interface (for IPv4 or IPv6), or a global one.
type DNSConfig struct {
	// Interface is the IP interface. It is "" with Global, and if the interface has disappeared.
	Interface string
	// Global means a [global-dns-domain-…] section of NetworkManager.conf, which overrides the
	// connections' settings.
	Global bool
	// Priority orders configurations. Lower is better, and a negative value excludes worse ones
	// (man nm-settings, dns-priority).
	Priority int
	VPN      bool
	// Nameservers are in order, at most 64, link-local ones with their zone.
	Nameservers []nameserver.Server
	// Static are the first of Nameservers, which the connection's profile sets (ipv4.dns,
	// ipv6.dns). The others came from the network. It is also empty if the profile is unknown,
	// because it is a VPN's or restricted to certain users.
	Static []nameserver.Server
	// Invalid are the refused nameservers, cut to 64 bytes and quoted.
	Invalid []string
	// Domains are in order, at most 64. The wildcard "~." comes last: NetworkManager omits it from
	// DnsManager's list (add_dns_domains in nm-dns-manager.c), so it is read from the interface's
	// addresses. A VPN's wildcard is unknown.
	Domains []Domain
	// Connection is the name of the active profile on Interface, any printable text. It is "" if
	// unknown.
	Connection string
}

// SearchList returns the search list of the effective configurations: their domains in order,
// without final dots, without duplicates and without routing-only ones.
func (s Snapshot) SearchList() []string {
	var list []string
	seen := map[dnsname.Name]bool{}
	for _, c := range inForce(s.Configs) {
		for _, d := range c.Domains {
			if !seen[d.Name] && !d.RoutingOnly && !d.Name.IsRoot() {
				seen[d.Name] = true
				list = append(list, d.Name.Relative())
			}
		}
	}
	return list
}
