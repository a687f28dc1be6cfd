package firewall

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Ruleset holds the filters for packets to this host. The zero Ruleset filters nothing.
type Ruleset struct {
	// Inputs are the base chains of the input hook, in the order in which packets pass them.
	Inputs []Chain
	// Outputs are the base chains of the output hook. Their rules are not read.
	Outputs []Chain

	rules map[place][]rule // by chain
	sets  map[place]set
	count int // total number of rules
}

// Chain is a base chain.
type Chain struct {
	Family   Family
	Table    string
	Name     string
	Priority int32 // lower priorities come first
	Drop     bool  // policy for packets that no rule decides
}

// String names the chain as nft(8) does.
func (c Chain) String() string {
	return fmt.Sprintf("chain %s of table %v %s", c.Name, c.Family, c.Table)
}

func (c Chain) place() place { return place{c.Family, c.Table, c.Name} }

// Family is a table's address family.
type Family uint8

// The families whose tables see packets to this host.
const (
	Inet Family = unix.NFPROTO_INET // both IPv4 and IPv6
	IPv4 Family = unix.NFPROTO_IPV4
	IPv6 Family = unix.NFPROTO_IPV6
)

// String returns the family's name in nft(8).
func (f Family) String() string {
	switch f {
	case Inet:
		return "inet"
	case IPv4:
		return "ip"
	case IPv6:
		return "ip6"
	}
	return fmt.Sprintf("family %d", uint8(f))
}

// place identifies a chain or a set. The two have separate namespaces.
type place struct {
	family Family
	table  string
	name   string
}

// rule is a list of expressions that the kernel runs in order, until one does not match.
type rule []expression

// expression is one step of a rule. Its attributes are decoded when it runs.
type expression struct {
	name  string
	attrs attributes
}

// set is a set, a map, or a verdict map.
type set struct {
	flags    uint32 // NFT_SET_*
	keyLen   int    // in bytes
	elements []element
	partial  bool // some elements were not read
}

// element is one entry of a set.
type element struct {
	key    []byte
	keyEnd []byte     // last key of an interval of concatenated fields; nil if there is no interval
	end    bool       // whether key is the first one after an interval
	any    bool       // whether it matches all keys without another element (NFT_SET_ELEM_CATCHALL)
	data   attributes // value in a map; nil in a set
}
