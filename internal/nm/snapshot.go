package nm

import (
	"net/netip"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
	"github.com/node-dns/node-dns/internal/dns/nameserver"
)

// A Snapshot is what NetworkManager knew at one time. It is immutable by
// convention; the zero Snapshot knows nothing. Every list in it is bounded.
type Snapshot struct {
	// Version is NetworkManager's, such as "1.42.4".
	Version string
	// State is the overall state in nmcli's words: "connected", "connected
	// (local only)", "connecting", "disconnected", …
	State string
	// Mode is NetworkManager's dns= setting in force: "default", "none",
	// "dnsmasq", "systemd-resolved", …
	Mode string
	// RcManager is how it writes /etc/resolv.conf: "symlink", "file",
	// "unmanaged", …
	RcManager string
	// Configs are the DNS configurations, best priority first, as NetworkManager
	// orders them: those of equal priority have VPNs first, then the interface
	// with the best default route. Configurations without nameservers are not
	// among them, because NetworkManager leaves these out. It stays filled with
	// dns=none.
	Configs []DNSConfig
	// Primary is the IP interface of the primary connection, or "". With a VPN it
	// is the interface beneath the tunnel: for the default route ask the kernel.
	Primary string
	// Devices are the devices with an active connection that are managed and
	// fully activated, at most 64. A device that goes away while it is looked at
	// is left out.
	Devices []Device
}

// A DNSConfig is what one interface (for one of IPv4 and IPv6), or the global
// configuration, says about DNS.
type DNSConfig struct {
	// Interface is the IP interface; "" with Global, and when the interface went
	// away under NetworkManager's hands.
	Interface string
	// Global means a [global-dns-domain-…] section of NetworkManager.conf, which
	// overrides what the connections say.
	Global bool
	// Priority orders configurations: lower is better, and negative excludes
	// worse ones (man nm-settings, dns-priority).
	Priority int
	VPN      bool
	// Nameservers in order, at most 64, link-local ones with their zone.
	Nameservers []nameserver.Server
	// Static are the first of Nameservers, those that the connection's profile
	// sets (ipv4.dns, ipv6.dns); the others came from the network. Empty, too, where
	// the profile is not known: a VPN's, one that is for certain users.
	Static []nameserver.Server
	// Invalid are the nameservers refused: cut to 64 bytes and quoted.
	Invalid []string
	// Domains in order, at most 64. The wildcard "~." comes last: NetworkManager
	// leaves it out of DnsManager's list (add_dns_domains in nm-dns-manager.c), so
	// it is taken from the interface's addresses. A VPN's is not known.
	Domains []Domain
	// Connection is the name of the profile active on Interface, any printable
	// text; "" when it is not known.
	Connection string
}

// A Device is a network device that NetworkManager has activated.
type Device struct {
	// Interface is the control interface, IPInterface the one with the addresses.
	Interface, IPInterface string
	// Addresses with their prefix lengths, at most 64, IPv4 before IPv6.
	Addresses []netip.Prefix
	// Gateway4 and Gateway6 are the default gateways; the zero Addr is none.
	Gateway4, Gateway6 netip.Addr
	// ConnectionID is the active profile's name as the admin chose it.
	ConnectionID, ConnectionUUID string
}

// SearchList returns the search list that the configurations in force ask for:
// their domains in order, without final dots, each once, without the routing-only
// ones.
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
