package netstate

import "net/netip"

// facts is everything read from the kernel, before anything is decided.
type facts struct {
	links  map[int]link
	addrs  []address
	rules  map[family][]rule
	routes map[family][]route // /0 routes only
	onLink []direct
}

// family is an address family as rtnetlink numbers it: AF_INET or AF_INET6.
type family uint8

// of reports whether a is of the family; 4-in-6 addresses never come from the
// kernel.
func (f family) of(a netip.Addr) bool {
	return a.IsValid() && a.Is4() == (f == inet)
}

type link struct {
	name         string
	group        uint32 // what "ip rule … suppress_ifgroup" compares
	up, loopback bool
}

type address struct {
	ip      netip.Addr
	index   int
	bits    int
	limited bool // scope smaller than global
	// second: not the address the kernel takes first for its prefix (IPv4), or
	// a privacy address that is gone tomorrow (IPv6): one flag, IFA_F_SECONDARY.
	second, deprecated, tentative, dadFailed bool
}

// rule is one line of ip-rule(8).
type rule struct {
	priority     uint32
	action       uint8
	table        uint32
	target       uint32 // of a goto
	conditional  bool   // some packets of this node do not match
	noDefaults   bool   // suppress_prefixlength: finds no /0 route
	withoutGroup uint32 // suppress_ifgroup: finds no route over this group
	hasGroup     bool
}

type route struct {
	table, metric uint32
	pref          uint8 // RFC 4191 router preference
	source        netip.Addr
	hops          []hop
}

// direct is a route without a router.
type direct struct {
	network netip.Prefix
	index   int // 0 if the route names no interface
}

type hop struct {
	index          int
	gateway        netip.Addr
	dead, linkdown bool
}
