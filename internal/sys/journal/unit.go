package journal

import (
	"os"
	"strings"
)

// unitField is the field that tells `journalctl -u` which unit an entry belongs to. journald looks
// up the unit by the process ID. If a hook has ended before its entry is read, that fails: half of
// its entries lacked the unit (systemd issue 2913). journalctl also accepts this field from root
// (add_matches_for_unit() in logs-show.c).
const unitField = "OBJECT_SYSTEMD_UNIT"

// ownUnit returns the unit that this process runs in. It returns "" if there is none, or if the
// process is not root and may not set the field.
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

// unitOf parses cgroups(7) and returns the unit: the first component after the slices in the path
// of systemd's hierarchy. Groups below that belong to the unit. It returns "" if there is none.
func unitOf(groups string) string {
	for line := range strings.Lines(groups) {
		id, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		controllers, path, _ := strings.Cut(rest, ":")
		if controllers != "name=systemd" && (id != "0" || controllers != "") {
			continue
		}
		for part := range strings.SplitSeq(path, "/") {
			part = strings.TrimPrefix(part, "_") // systemd's escape for names that the kernel could use itself
			if strings.HasSuffix(part, ".service") || strings.HasSuffix(part, ".scope") {
				return part
			}
		}
	}
	return ""
}
