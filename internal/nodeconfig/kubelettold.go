package nodeconfig

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"

	"github.com/node-dns/node-dns/internal/sys/procfs"
)

const (
	// ByDefault is the source of a value that is set nowhere.
	ByDefault = "default"

	byCommandLine     = FlagResolvConf + " on the kubelet's command line"
	defaultResolvConf = "/etc/resolv.conf"
)

// KubeletTold are the pod DNS settings of a running kubelet, from its command line and the files
// named there. A By field is the place of the setting, such as "--cluster-dns of the kubelet, pid
// 812" or "clusterDNS /etc/kubelet.yaml:4". ByDefault means that it is set nowhere. "" means that
// the place is unknown, and other knowledge about the kubelet counts.
type KubeletTold struct {
	DNS    []netip.Addr
	DNSBy  string
	Domain string // in lower case, without its final dot
	// ResolvConf is an absolute path on the host. "" means that pods get nothing from the node's
	// file.
	DomainBy, ResolvConf, ResolvConfBy string
	// SetBy tells the admin where ResolvConf is set, or could be set. It is "" if ResolvConfBy is
	// "".
	SetBy string
}

// KubeletToldBy merges the flags, which win, with the files' settings. says is nil if the command
// line names no file.
func KubeletToldBy(pid int, flags KubeletFlags, files KubeletFiles, says *KubeletSays) KubeletTold {
	var t KubeletTold
	if says != nil {
		t.DNS, t.DNSBy = says.DNS, keyPlace(says, KeyClusterDNS)
		t.Domain, t.DomainBy = says.Domain.Relative(), keyPlace(says, KeyClusterDomain)
		t.ResolvConf, t.ResolvConfBy = says.ResolvConf, keyPlace(says, KeyResolvConf)
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

func keyPlace(says *KubeletSays, key string) string {
	source, isSaid := says.Sources[key]
	switch {
	case says.Unknown[key]:
		return ""
	case isSaid:
		return fmt.Sprintf("%s %s:%d", key, source.File, source.Line)
	}
	return ByDefault
}

// settingFile returns the file that sets resolvConf, or else the one where it may be set.
func settingFile(files KubeletFiles, says *KubeletSays) string {
	if source, isSaid := says.Sources[KeyResolvConf]; isSaid {
		return source.File
	}
	if files.Config != "" {
		return files.Config
	}
	return filepath.Join(files.DropIns, "*.conf")
}

// The kubelet flags for pods' resolv.conf, and those that name its configuration files.
const (
	flagDNS        = "--cluster-dns"
	flagDomain     = "--cluster-domain"
	FlagResolvConf = "--resolv-conf"
	FlagConfig     = "--config"
	flagConfigDir  = "--config-dir"
)

// KubeletFlags are the settings for pods' resolv.conf on a kubelet's command line, which override
// its configuration file. nil fields are not set.
type KubeletFlags struct {
	DNS        []netip.Addr
	Domain     *string // in lower case, without its final dot
	ResolvConf *string // absolute; "" means that pods get nothing from the node's file
}

// KubeletFlagsOf parses a kubelet's command line as the kubelet does: a list may come in parts,
// invalid addresses are skipped, and a path is relative to its working directory.
func KubeletFlagsOf(p procfs.Process) KubeletFlags {
	var f KubeletFlags
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

// KubeletFilesOf returns the configuration files on the command line of a kubelet below root.
func KubeletFilesOf(root string, p procfs.Process) KubeletFiles {
	files := KubeletFiles{Root: root, WorkDir: p.Dir(), IsOther: p.HasOther}
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

// fromDir resolves a path of a kubelet's command line; "" stays "".
func fromDir(p procfs.Process, path string) string {
	switch {
	case path == "":
		return ""
	case filepath.IsAbs(path):
		return filepath.Clean(path)
	}
	return filepath.Join(p.Dir(), path)
}

// IsEmpty reports whether no flag is set.
func (f KubeletFlags) IsEmpty() bool {
	return len(f.DNS) == 0 && f.Domain == nil && f.ResolvConf == nil
}

// ResolvConfSetting returns where to set a kubelet's resolvConf. told is KubeletTold.SetBy of the
// running kubelet, or "" if unknown.
func ResolvConfSetting(isOpenShift3 bool, told string) string {
	switch {
	case isOpenShift3 && (told == "" || told == byCommandLine): // its node process builds the command line
		return "kubeletArguments: {resolv-conf: [FILE]} in /etc/origin/node/node-config.yaml"
	case told != "":
		return told
	}
	return "resolvConf in /var/lib/kubelet/config.yaml"
}
