package searchlist

import (
	"net/netip"
	"strings"

	"github.com/node-dns/node-dns/internal/procfs"
)

// The flags of a kubelet that have a say in pods' resolv.conf.
const (
	FlagDNS        = "--cluster-dns"
	FlagDomain     = "--cluster-domain"
	FlagResolvConf = "--resolv-conf"
)

// Flags are what a kubelet's command line says of pods' resolv.conf, which wins over its configuration file. Nil: it says nothing.
type Flags struct {
	DNS        []netip.Addr
	Domain     *string // in lower case, without its final dot
	ResolvConf *string // absolute; "": pods have nothing of the node's
}

// FlagsOf reads the command line of a kubelet as that does: a list may be given in parts, what is no address is left out, and a path
// is one from its working directory, which is /.
func FlagsOf(p procfs.Process) Flags {
	var f Flags
	for _, list := range p.Values(FlagDNS) {
		for word := range strings.SplitSeq(list, ",") {
			if addr, err := netip.ParseAddr(strings.TrimSpace(word)); err == nil {
				f.DNS = append(f.DNS, addr)
			}
		}
	}
	if domain, ok := p.Value(FlagDomain); ok {
		domain = strings.ToLower(strings.TrimSuffix(domain, "."))
		f.Domain = &domain
	}
	if path, ok := p.Value(FlagResolvConf); ok {
		if path != "" && !strings.HasPrefix(path, "/") {
			path = "/" + path
		}
		f.ResolvConf = &path
	}
	return f
}

// IsEmpty reports whether nothing is said.
func (f Flags) IsEmpty() bool { return len(f.DNS) == 0 && f.Domain == nil && f.ResolvConf == nil }
