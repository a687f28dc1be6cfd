package searchlist

import (
	"net/netip"
	"path/filepath"
	"strings"

	"github.com/node-dns/node-dns/internal/nodeconfig"
	"github.com/node-dns/node-dns/internal/sys/procfs"
)

// The flags of a kubelet that have a say in pods' resolv.conf, and those that name its configuration files.
const (
	FlagDNS        = "--cluster-dns"
	FlagDomain     = "--cluster-domain"
	FlagResolvConf = "--resolv-conf"
	FlagConfig     = "--config"
	FlagConfigDir  = "--config-dir"
)

// Flags are what a kubelet's command line says of pods' resolv.conf, which wins over its configuration file. Nil: it says nothing.
type Flags struct {
	DNS        []netip.Addr
	Domain     *string // in lower case, without its final dot
	ResolvConf *string // absolute; "": pods have nothing of the node's
}

// FlagsOf reads the command line of a kubelet as that does: a list may be given in parts, what is no address is left out, and a path
// is one from its working directory.
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
		path = fromDir(p, path)
		f.ResolvConf = &path
	}
	return f
}

// FilesOf are the configuration files that the command line of a kubelet below root names.
func FilesOf(root string, p procfs.Process) nodeconfig.KubeletFiles {
	files := nodeconfig.KubeletFiles{Root: root, WorkDir: p.Dir(), IsOther: p.HasOther}
	if path, ok := p.Value(FlagConfig); ok {
		files.Config = fromDir(p, path)
	}
	if path, ok := p.Value(FlagConfigDir); ok {
		files.DropIns = fromDir(p, path)
		if strings.HasSuffix(path, "/") && files.DropIns != "/" { // through a link to a directory
			files.DropIns += "/"
		}
	}
	return files
}

// fromDir is a path of a kubelet's command line; "" stays.
func fromDir(p procfs.Process, path string) string {
	switch {
	case path == "":
		return ""
	case filepath.IsAbs(path):
		return filepath.Clean(path)
	}
	return filepath.Join(p.Dir(), path)
}

// IsEmpty reports whether nothing is said.
func (f Flags) IsEmpty() bool { return len(f.DNS) == 0 && f.Domain == nil && f.ResolvConf == nil }
