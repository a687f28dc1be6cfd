// Package dnsmasqconf is dnsmasq's configuration: what its files say, read by dnsmasq 2.90's own rules, and the texts of
// its server= option, which also come over D-Bus.
//
// It is apart from nodeconfig, which is about the cluster's files and our own, and from the daemon, which decides what of
// all that is in force: nothing here is asked, bound or answered. An option that is known and has no effect here is told
// of in Config.Aside, never left out in silence.
package dnsmasqconf

import (
	"fmt"
	"net/netip"

	"github.com/node-dns/node-dns/internal/dns/dnsname"
)

// Unset is what a number is that no file says.
const Unset = -1

// Config is what all files said together. It is a value: treat its slices and maps as read-only.
type Config struct {
	// Files are the files that were read, in order, once each; none: nobody has configured dnsmasq here.
	Files []string
	// Dirs are the directories whose files belong to the configuration, those of hosts files too: a change there is one of it.
	Dirs []string
	// Others are further files that it names: hosts files and resolv-file.
	Others []string

	// Servers are server=, local=, rev-server= and address=/domain/, in order.
	Servers []Server
	// Addresses are address= with an address, in order.
	Addresses []Address

	Hosts  []Host // of host-record, then of the hosts files
	CNAMEs []CNAME
	Texts  []Text
	SRVs   []SRV
	PTRs   []PTR
	MXs    []MX
	// Records are those of other types.
	Records []Record
	// Domain is domain= without a network; the zero Name: none.
	Domain dnsname.Name

	Flags   map[string]bool // the options without an argument that are set, and followed
	Numbers map[string]int  // likewise those with a number; see Number

	Bogus      []netip.Prefix // bogus-nxdomain
	Ignored    []netip.Prefix // ignore-address
	Rewrites   []Rewrite      // alias, in order
	RebindOK   []dnsname.Name // rebind-domain-ok; the root: names without dots
	ResolvFile []string       // resolv-file, in order
	HostsFile  []string       // addn-hosts and hostsdir, in order
	Listen     []netip.Addr   // listen-address
	Interfaces []string       // interface; a final * stands for any end
	Except     []string       // except-interface

	Ports Ports // min-port and max-port

	LogExtra bool // log-queries=extra

	// Sources says where each option was set first.
	Sources map[string]Place
	// Aside are the options that have no effect here, and why.
	Aside []Aside
}

// Place is where an option stands.
type Place struct {
	File string
	Line int // from 1
}

// String is "FILE:LINE".
func (p Place) String() string { return fmt.Sprintf("%s:%d", p.File, p.Line) }

// A Server is a Rule of a file.
type Server struct {
	Rule
	Place Place
}

// An Address is an address= option: the names of a domain have it.
type Address struct {
	Domain dnsname.Name // and all below it; the root: all names
	Plain  bool         // names without dots alone
	Addr   netip.Addr   // the zero Addr: 0.0.0.0 and ::
	Place  Place
}

// A Host are names with addresses, which lead back to the first of the names.
type Host struct {
	Names []dnsname.Name
	Addrs []netip.Addr
	TTL   int // seconds, or Unset
	Place Place
	// NoReverse says that nothing leads back.
	NoReverse bool
	// Whole says that a query for an address of the other family is NODATA. If it is not set, that query goes to a nameserver.
	Whole bool
}

// A CNAME is an alias.
type CNAME struct {
	Alias, Target dnsname.Name
	TTL           int // seconds, or Unset
	Place         Place
}

// A Text is a TXT record.
type Text struct {
	Name  dnsname.Name
	Texts []string // at least one, of at most 255 octets
	Place Place
}

// An SRV is a service's record.
type SRV struct {
	Name, Target           dnsname.Name // Target: the root when there is none
	Port, Priority, Weight uint16
	Place                  Place
}

// A PTR is a record that leads from one name to another.
type PTR struct {
	Name, Target dnsname.Name
	Place        Place
}

// An MX says where a name's mail goes.
type MX struct {
	Name, Target dnsname.Name // Target: the zero Name is mx-target, or this host
	Preference   uint16
	Place        Place
}

// An Aside is an option that is known and has no effect.
type Aside struct {
	Option string
	Place  Place
	Why    string
}

// String is one line for an admin.
func (a Aside) String() string {
	return fmt.Sprintf("%s: %s is known, not followed: %s", a.Place, a.Option, a.Why)
}

// Has reports whether an option without an argument is set.
func (c Config) Has(flag string) bool { return c.Flags[flag] }

// Number is what an option says, or Unset.
func (c Config) Number(option string) int {
	if n, ok := c.Numbers[option]; ok {
		return n
	}
	return Unset
}

// IsEmpty reports whether nobody has configured dnsmasq here.
func (c Config) IsEmpty() bool { return len(c.Files) == 0 }
