package searchlist

import (
	"fmt"
	"net/netip"
	"path/filepath"

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
		t.DNS, t.DNSBy = flags.DNS, procfs.FlagPlace(FlagDNS, "kubelet", pid)
	}
	if flags.Domain != nil {
		t.Domain, t.DomainBy = *flags.Domain, procfs.FlagPlace(FlagDomain, "kubelet", pid)
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
