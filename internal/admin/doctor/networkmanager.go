package doctor

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/node-dns/node-dns/internal/admin/migrate"
	"github.com/node-dns/node-dns/internal/nm"
)

// leftBehind are who is known to have left a snippet of this name.
var leftBehind = map[string]string{
	"99-origin.conf":     " (openshift-ansible wrote it)",
	"99-cloud-init.conf": " (cloud-init wrote it, and may do so again)",
	"90-dns-none.conf":   " (a guide's usual name for it)",
}

// checkNetworkManagerConf looks for what takes /etc/resolv.conf from NetworkManager for good. While node-dns runs that is
// our own snippet's business; what stays in /etc leaves a node without DNS on the day that node-dns is gone.
func checkNetworkManagerConf(s Snapshot) []Finding {
	if s.NMConfErr != nil {
		return []Finding{warn("NetworkManager's configuration cannot be read: "+firstLine(s.NMConfErr.Error()), "")}
	}
	var found []Finding
	if c := s.NMConf.DNS; c.Value == "none" {
		found = append(found, kept("dns=none", c))
	}
	// With each other value NetworkManager writes the file again: as a file, as its link, or by resolvconf or netconfig (NetworkManager.conf(5)).
	if c := s.NMConf.RcManager; c.Value == "unmanaged" && c.File != "" {
		found = append(found, kept("rc-manager="+c.Value, c))
	}
	if s.NMConf.Shadow != "" {
		found = append(found, warn(s.NMConf.Shadow+" hides node-dns's own snippet of that name: NetworkManager writes /etc/resolv.conf too", "give it another name"))
	}
	return orFine(found, "NetworkManager's files leave /etc/resolv.conf to whom node-dns says")
}

func kept(setting string, at nm.Setting) Finding {
	return warn(fmt.Sprintf("%s:%d sets %s%s: NetworkManager does not bring /etc/resolv.conf back when node-dns is gone", at.File, at.Line, setting, leftBehind[filepath.Base(at.File)]),
		"unless you have decided so, take it out, and nmcli general reload conf")
}

// checkWriters names what else writes /etc/resolv.conf. What was migrated has nothing left to be done.
func checkWriters(s Snapshot) []Finding {
	var found []Finding
	left := migrate.NewPlan(s.Host, migrate.Find(s.Host))
	for _, f := range left.Findings {
		switch {
		case f.Origin == "systemd-resolved": // checkResolved judges that
		case f.Origin == "openshift3" && len(s.OldHooks) > 0: // checkOldHook says it
		case len(left.Steps) == 0 && len(left.Refused) == 0 && len(left.Owner) == 0:
		default:
			found = append(found, warn(f.What, "node-dns migrate says what would be done about it", oneLine(f.Evidence)...))
		}
	}
	if told := s.Host.OpenresolvTells(); len(told) > 0 {
		found = append(found, warn("openresolv writes /etc/resolv.conf over when "+strings.Join(told, ", ")+" tells it of nameservers",
			"resolv_conf=/run/resolvconf/resolv.conf in /etc/resolvconf.conf has it write there"))
	}
	for _, w := range s.Writers {
		found = append(found, warn(w.What, w.Fix, oneLine(w.Evidence)...))
	}
	return orFine(found, "nothing else is known here that writes /etc/resolv.conf, or does this node's DNS")
}
