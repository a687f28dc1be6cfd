// Package dnsmasqconf parses dnsmasq's configuration by the rules of dnsmasq 2.90, and the values
// of its server= option, which also come over D-Bus.
//
// It is separate from nodeconfig, which handles the cluster's files and our own, and from the
// daemon, which decides what is effective. It sends no queries and opens no sockets. Config.Aside
// lists each known option that has no effect here; none is dropped silently.
package dnsmasqconf

import (
	"fmt"
	"net/netip"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
)

// Unset is the value of a number that no file sets.
const Unset = -1

// Config is the combined content of all files. It is a value: its slices and maps are read-only.
type Config struct {
	// Files are the files that were read, in order, without duplicates. None means that dnsmasq is
	// not configured here.
	Files []string
	// Dirs are the directories whose files belong to the configuration, including those of hosts
	// files. A change there changes the configuration.
	Dirs []string
	// Others are further files that it names: hosts files and resolv-file.
	Others []string

	// Servers are server=, local=, rev-server= and address=/domain/, in order.
	Servers []Server
	// Addresses are address= with an address, in order.
	Addresses []Address

	Hosts  []Host // from host-record, then from the hosts files
	CNAMEs []CNAME
	MXs    []MX
	// Records are those of other types, in order.
	Records []Record
	PTRs    []Record // of ptr-record; they come before those of Hosts
	// Domain is domain= without a network, or the zero Name.
	Domain dnsname.Name

	Flags   map[string]bool // effective options without an argument that are set
	Numbers map[string]int  // effective options with a number; see Number

	Bogus      []netip.Prefix // bogus-nxdomain
	Ignored    []netip.Prefix // ignore-address
	Rewrites   []Rewrite      // alias, in order
	RebindOK   []dnsname.Name // rebind-domain-ok; the root stands for names without dots
	ResolvFile []string       // resolv-file, in order
	HostsFile  []string       // addn-hosts and hostsdir, in order
	Listen     []netip.Addr   // listen-address
	Interfaces []string       // interface; a final * matches any suffix
	Except     []string       // except-interface

	Ports Ports // min-port and max-port

	LogExtra bool // log-queries=extra

	// Sources are the places where each option is first set.
	Sources map[string]Place
	// Aside are the options without effect here, and the reasons.
	Aside []Aside
}

// Place is the position of an option.
type Place struct {
	File string
	Line int // from 1
}

// String is "FILE:LINE".
func (p Place) String() string { return fmt.Sprintf("%s:%d", p.File, p.Line) }

// A Server is a Rule from a file.
type Server struct {
	Rule
	Place Place
}

// An Address is an address= option: all names of a domain have this address.
type Address struct {
	Domain dnsname.Name // including all names below it; the root means all names
	Plain  bool         // only names without dots
	Addr   netip.Addr   // the zero Addr means 0.0.0.0 and ::
	Place  Place
}

// A Host is a list of names with addresses. The addresses' PTR records name the first one.
type Host struct {
	Names []dnsname.Name
	Addrs []netip.Addr
	TTL   int // seconds, or Unset
	Place Place
	// NoReverse means that there are no PTR records.
	NoReverse bool
	// Whole means that a query for the other address family gets NODATA. Otherwise that query goes
	// to a nameserver.
	Whole bool
}

// A CNAME is an alias.
type CNAME struct {
	Alias, Target dnsname.Name
	TTL           int // seconds, or Unset
	Place         Place
}

// An MX is an MX record.
type MX struct {
	Name, Target dnsname.Name // the zero Name means mx-target, or this host
	Preference   uint16
	Place        Place
}

// An Aside is a known option without effect.
type Aside struct {
	Option string
	Place  Place
	Why    string
}

// String returns one line for an admin.
func (a Aside) String() string {
	return fmt.Sprintf("%s: %s is not followed: %s", a.Place, a.Option, a.Why)
}

// Has reports whether an option without an argument is set.
func (c Config) Has(flag string) bool { return c.Flags[flag] }

// Number returns the value of an option, or Unset.
func (c Config) Number(option string) int {
	if n, ok := c.Numbers[option]; ok {
		return n
	}
	return Unset
}

// IsEmpty reports whether dnsmasq is not configured here.
func (c Config) IsEmpty() bool { return len(c.Files) == 0 }

// Options are the switches that dnsmasq has in its files and over D-Bus. In the zero Options all
// are off.
type Options struct {
	FilterA      bool `json:"filterA,omitempty"`      // no A records in answers
	FilterAAAA   bool `json:"filterAAAA,omitempty"`   // no AAAA records in answers
	FilterWin2K  bool `json:"filterWin2K,omitempty"`  // do not forward Windows' frequent queries: SOA, SRV, ANY
	BogusPrivate bool `json:"bogusPrivate,omitempty"` // do not forward reverse lookups of private addresses
	Localise     bool `json:"localise,omitempty"`     // of a local name's addresses, return those on the client's network
}

// Options returns the switches that the files set.
func (c Config) Options() Options {
	return Options{
		FilterA: c.Has("filter-A"), FilterAAAA: c.Has("filter-AAAA"), FilterWin2K: c.Has("filterwin2k"),
		BogusPrivate: c.Has("bogus-priv"), Localise: c.Has("localise-queries"),
	}
}

// With returns the options that are on in either.
func (o Options) With(other Options) Options {
	return Options{
		FilterA: o.FilterA || other.FilterA, FilterAAAA: o.FilterAAAA || other.FilterAAAA,
		FilterWin2K: o.FilterWin2K || other.FilterWin2K, BogusPrivate: o.BogusPrivate || other.BogusPrivate,
		Localise: o.Localise || other.Localise,
	}
}

// Words returns dnsmasq's names of the options that are on.
func (o Options) Words() []string {
	words := []string{}
	for _, option := range []struct {
		on   bool
		name string
	}{{o.FilterA, "filter-A"}, {o.FilterAAAA, "filter-AAAA"}, {o.FilterWin2K, "filterwin2k"}, {o.BogusPrivate, "bogus-priv"}, {o.Localise, "localise-queries"}} {
		if option.on {
			words = append(words, option.name)
		}
	}
	return words
}

// fleeting is the max-cache-ttl, in seconds, below which a cache is of little use: a resolver
// queries A and AAAA, with each domain of its search list, and again after 5 s (resolv.conf(5)).
const fleeting = 5

// Costs returns warnings, one line each, about effective options whose cost an admin may not have
// intended.
func (c Config) Costs() []string {
	var costs []string
	if n := c.Number("max-cache-ttl"); n > 0 && n < fleeting {
		costs = append(costs, fmt.Sprintf("max-cache-ttl=%d (%s) makes node-dns query the upstreams for each name again after %d s; without it, the upstreams' TTLs apply",
			n, c.Sources["max-cache-ttl"], n))
	}
	if c.Has("no-negcache") {
		costs = append(costs, fmt.Sprintf("no-negcache (%s) makes node-dns query the upstreams every time for names that do not exist; without it, the TTLs of their SOA records apply",
			c.Sources["no-negcache"]))
	}
	return costs
}
