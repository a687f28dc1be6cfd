package searchlist

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"

	"github.com/node-dns/node-dns/internal/nodeconfig"
	"github.com/node-dns/node-dns/internal/sys/procfs"
)

const (
	// ByDefault is where a kubelet has a value that it was told nowhere.
	ByDefault = "default"

	byCommandLine     = FlagResolvConf + " on the kubelet's command line"
	defaultResolvConf = "/etc/resolv.conf"
)

// Told is what a kubelet that runs was told of pods' resolv.conf, by its command line and by the files that this names. A By is where, as
// "--cluster-dns of the kubelet, pid 812" or "clusterDNS /etc/kubelet.yaml:4"; ByDefault: nowhere; "": that is not known, and what else
// is known of the kubelet counts.
type Told struct {
	DNS    []netip.Addr
	DNSBy  string
	Domain string // in lower case, without its final dot
	// ResolvConf is absolute, as the host has it; "": pods have nothing of the node's.
	DomainBy, ResolvConf, ResolvConfBy string
	// SetBy is where ResolvConf is set, or would be, as an admin is told; "" where ResolvConfBy is.
	SetBy string
}

// ToldBy puts what flags say, which wins, before what the files say; nil: the command line names none.
func ToldBy(pid int, flags Flags, files nodeconfig.KubeletFiles, says *nodeconfig.KubeletSays) Told {
	var t Told
	if says != nil {
		t.DNS, t.DNSBy = says.DNS, by(says, nodeconfig.KeyClusterDNS)
		t.Domain, t.DomainBy = says.Domain.Relative(), by(says, nodeconfig.KeyClusterDomain)
		t.ResolvConf, t.ResolvConfBy = says.ResolvConf, by(says, nodeconfig.KeyResolvConf)
		if t.ResolvConfBy == ByDefault {
			t.ResolvConf = defaultResolvConf
		}
		if t.ResolvConfBy != "" {
			t.SetBy = "resolvConf in " + settingFile(files, says)
		}
	}
	if len(flags.DNS) > 0 {
		t.DNS, t.DNSBy = flags.DNS, procfs.FlagPlace(flagDNS, "kubelet", pid)
	}
	if flags.Domain != nil {
		t.Domain, t.DomainBy = *flags.Domain, procfs.FlagPlace(flagDomain, "kubelet", pid)
	}
	if flags.ResolvConf != nil {
		t.ResolvConf, t.ResolvConfBy, t.SetBy = *flags.ResolvConf, procfs.FlagPlace(FlagResolvConf, "kubelet", pid), byCommandLine
	}
	return t
}

// by is where the files say a key.
func by(says *nodeconfig.KubeletSays, key string) string {
	source, isSaid := says.Sources[key]
	switch {
	case says.Unknown[key]:
		return ""
	case isSaid:
		return fmt.Sprintf("%s %s:%d", key, source.File, source.Line)
	}
	return ByDefault
}

// settingFile is the file that says resolvConf, or, where none does, may say it.
func settingFile(files nodeconfig.KubeletFiles, says *nodeconfig.KubeletSays) string {
	if source, isSaid := says.Sources[nodeconfig.KeyResolvConf]; isSaid {
		return source.File
	}
	if files.Config != "" {
		return files.Config
	}
	return filepath.Join(files.DropIns, "*.conf")
}

// The flags of a kubelet that have a say in pods' resolv.conf, and those that name its configuration files.
const (
	flagDNS        = "--cluster-dns"
	flagDomain     = "--cluster-domain"
	FlagResolvConf = "--resolv-conf"
	FlagConfig     = "--config"
	flagConfigDir  = "--config-dir"
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
	for _, list := range p.Values(flagDNS) {
		for word := range strings.SplitSeq(list, ",") {
			if addr, err := netip.ParseAddr(strings.TrimSpace(word)); err == nil {
				f.DNS = append(f.DNS, addr)
			}
		}
	}
	if domain, ok := p.Value(flagDomain); ok {
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
	if path, ok := p.Value(flagConfigDir); ok {
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
