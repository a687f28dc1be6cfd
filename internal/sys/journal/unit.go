package journal

import (
	"os"
	"strings"
)

// unitField tells `journalctl -u` whose an entry is. journald finds the unit of a process by its number, and a hook that has
// ended before the entry is read has none: half of its entries were not its unit's (systemd issue 2913). What root says
// with this field counts as well (add_matches_for_unit() of logs-show.c).
const unitField = "OBJECT_SYSTEMD_UNIT"

// ownUnit is the unit that this process runs in; "": none, or it is not root's to say.
func ownUnit() string {
	if os.Geteuid() != 0 {
		return ""
	}
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return ""
	}
	return unitOf(string(groups))
}

// unitOf reads cgroups(7): the line of the hierarchy that systemd keeps, whose path has the unit behind the slices; what
// is below it is the unit's own business. "": there is none.
func unitOf(groups string) string {
	for line := range strings.Lines(groups) {
		id, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		controllers, path, _ := strings.Cut(rest, ":")
		if controllers != "name=systemd" && (id != "0" || controllers != "") {
			continue
		}
		for part := range strings.SplitSeq(path, "/") {
			part = strings.TrimPrefix(part, "_") // before a name that the kernel would take for its own
			if strings.HasSuffix(part, ".service") || strings.HasSuffix(part, ".scope") {
				return part
			}
		}
	}
	return ""
}
