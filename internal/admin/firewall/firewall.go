// Package firewall finds input filters that drop DNS from the clients of this node's nameserver:
// firewalld's zones, and the rules of nftables and iptables.
//
// Read collects the facts. State.Find evaluates them and is pure. It reports a drop only if no rule
// can accept the packet. Rules that it cannot evaluate are reported as such.
//
// The kernel's rules (nf_tables) are read over netlink, so nft(8) need not be installed. This
// package decodes their expressions itself, because github.com/google/nftables (0.3.0,
// expr/expr.go) silently omits unknown ones, and a partly decoded rule would look complete.
package firewall

import (
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/netstate"
	"github.com/node-dns/node-dns/internal/nodeconfig"
)

// State holds the packet filters of this host. The zero State means that nothing is known.
type State struct {
	Firewalld *Firewalld // nil if it does not run or did not answer
	Rules     *Ruleset   // nil if not readable; reading requires CAP_NET_ADMIN
	Legacy    []string   // legacyPrograms with rules, which are not read
	Problems  []string   // sources that could not be read, with the reason
}

// Nameserver describes this node's nameserver and its clients.
type Nameserver struct {
	Listen    []netip.AddrPort // loopback addresses do not count
	Net       netstate.State
	PodCIDRs  []netip.Prefix // empty if unknown
	AllowFrom nodeconfig.AllowFrom
}

// Finding reports a filter that drops DNS from clients or may drop it.
type Finding struct {
	Drops    bool // false if a rule could not be evaluated
	Expected bool // whether the clients are pods or in allowFrom; otherwise this is a guess
	What     string
	Details  []string // one line each
	Fix      string   // command or hint
}

// cause is the reason why a packet does not arrive. Findings are grouped by it.
type cause struct {
	drops  bool
	port   uint16
	zone   string // firewalld's zone; if empty, chain is the cause
	chain  Chain  // if zero, legacy is the cause
	legacy string
}

// victims are the clients that one cause affects.
type victims struct {
	cause
	links     []Link // all of one kind
	protocols []string
	why       string // first rule that could not be evaluated
}

// Find returns the filters that drop DNS from the clients of n, or may drop it.
func (s State) Find(n Nameserver) []Finding {
	if s.Firewalld == nil && s.Rules == nil {
		return nil
	}
	var groups []victims
	for _, link := range n.Links() {
		for _, to := range n.asked(link) {
			for _, protocol := range protocols {
				if c, why := s.decide(link, to, protocol); c != (cause{}) {
					groups = addTo(groups, c, why, link, protocol)
				}
			}
		}
	}
	var all []Finding
	for _, v := range groups {
		all = append(all, v.finding(s, n))
	}
	return all
}

const dnsPort = 53

// protocols are the transports of DNS without TLS.
var protocols = []string{"udp", "tcp"}

var protocolNumbers = map[string]uint8{"udp": unix.IPPROTO_UDP, "tcp": unix.IPPROTO_TCP}

// asked returns the addresses that clients of a link query: one per port, of their address family.
func (n Nameserver) asked(link Link) []netip.AddrPort {
	var all []netip.AddrPort
	for _, at := range n.Listen {
		other := slices.ContainsFunc(all, func(have netip.AddrPort) bool { return have.Port() == at.Port() })
		if !other && !at.Addr().IsLoopback() && at.Addr().Is4() == link.Source.Is4() {
			all = append(all, netip.AddrPortFrom(at.Addr().WithZone(""), at.Port()))
		}
	}
	return all
}

// decide returns the reason why a client's packet does not arrive, or zero if it arrives. If that
// is uncertain, why names the rule that could not be evaluated. The kernel's rules override
// firewalld's zones, which are incomplete: there are also policies, rich rules and tables of other
// programs.
func (s State) decide(link Link, to netip.AddrPort, protocol string) (c cause, why string) {
	zone, byZone := s.Firewalld.decide(link, to.Port(), protocol)
	d := Decision{Verdict: byZone, Why: "only root can read them"}
	if s.Rules != nil {
		d = s.Rules.Decide(Packet{
			Interface: link.Interface, Index: link.Index, Source: link.Source, Destination: to.Addr(), Port: to.Port(), Protocol: protocolNumbers[protocol],
		})
	}
	c = cause{drops: d.Verdict == Drop, port: to.Port()}
	legacy := legacyPrograms[link.Source.Is6()]
	switch {
	case d.Verdict == Accept && !slices.Contains(s.Legacy, legacy):
		return cause{}, ""
	case d.Verdict == Accept && byZone == Drop: // firewalld with FirewallBackend=iptables
		c.drops, c.zone = true, zone.Name
	case d.Verdict == Accept:
		c.legacy = legacy
	case s.Rules == nil, s.Firewalld != nil && (d.Chain.Table == firewalldTable || byZone == Drop):
		c.zone = zone.Name
	default:
		c.chain = d.Chain
	}
	return c, d.Why
}

// legacyPrograms are the programs for the kernel's older interface. The key is true for IPv6.
var legacyPrograms = map[bool]string{false: "iptables-legacy", true: "ip6tables-legacy"}

// addTo adds a client to the group with the same cause.
func addTo(groups []victims, c cause, why string, link Link, protocol string) []victims {
	i := slices.IndexFunc(groups, func(v victims) bool { return v.cause == c && v.links[0].kind == link.kind })
	if i < 0 {
		i = len(groups)
		groups = append(groups, victims{cause: c, why: why})
	}
	groups[i].links, groups[i].protocols = with(groups[i].links, link), with(groups[i].protocols, protocol)
	return groups
}

// with appends one unless the list contains it.
func with[T comparable](list []T, one T) []T {
	if slices.Contains(list, one) {
		return list
	}
	return append(list, one)
}
