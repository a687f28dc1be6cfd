package procfs

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// noLimit is the value from which on a cgroup v1 limit means unlimited. The kernel rounds it to
// pages, whose size differs.
const noLimit = 1 << 60

// MemoryLimit returns the smallest memory limit in bytes of this process's control groups:
// memory.max and memory.high in v2, memory.limit_in_bytes in v1. It returns 0 if there is no limit.
// root is the directory that contains /proc and the mounts; "" means /. MemoryLimit fails if /proc
// cannot be read. It does not see groups above the root of a cgroup namespace.
func MemoryLimit(root string) (octets int64, err error) {
	groups, err := readGroups(filepath.Join("/", root, "/proc/self/cgroup"))
	if err != nil {
		return 0, err
	}
	mounts, err := readMounts(filepath.Join("/", root, "/proc/self/mountinfo"))
	if err != nil {
		return 0, err
	}
	for _, m := range mounts {
		group, ok := groups[m.controller]
		if !ok {
			continue
		}
		for _, dir := range m.dirs(group) {
			for _, file := range m.files() {
				n, err := readLimit(filepath.Join("/", root, dir, file))
				if err != nil {
					return 0, err
				}
				if n > 0 && (octets == 0 || n < octets) {
					octets = n
				}
			}
		}
	}
	return octets, nil
}

// Controllers for readGroups and mount. v2 has one hierarchy for all controllers.
const (
	unified = ""
	memory  = "memory"
)

// readGroups returns the paths of the process's groups by controller.
func readGroups(path string) (map[string]string, error) {
	groups := map[string]string{}
	err := eachLine(path, func(line string) {
		fields := strings.SplitN(line, ":", 3) // number, controllers, path
		if len(fields) != 3 {
			return
		}
		for controller := range strings.SplitSeq(fields[1], ",") {
			if controller == memory || controller == unified {
				groups[controller] = fields[2]
			}
		}
	})
	return groups, err
}

// A mount is a directory that shows a group and those below it.
type mount struct {
	controller string
	group, dir string
}

// readMounts parses proc_pid_mountinfo(5).
func readMounts(path string) ([]mount, error) {
	var mounts []mount
	err := eachLine(path, func(line string) {
		before, after, _ := strings.Cut(line, " - ")
		where, what := strings.Fields(before), strings.Fields(after)
		if len(where) < 5 || len(what) < 1 {
			return
		}
		m := mount{group: unescape(where[3]), dir: unescape(where[4])}
		switch {
		case what[0] == "cgroup2":
			m.controller = unified
		case what[0] == "cgroup" && len(what) > 2 && slices.Contains(strings.Split(what[2], ","), memory):
			m.controller = memory
		default:
			return
		}
		mounts = append(mounts, m)
	})
	return mounts, err
}

// unescape replaces the octal escapes for space, tab, newline and backslash.
func unescape(text string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(text)
}

func (m mount) files() []string {
	if m.controller == unified {
		return []string{"memory.max", "memory.high"}
	}
	return []string{"memory.limit_in_bytes"}
}

// dirs returns the visible directories of a group and its ancestors. A group that is not below the
// mounted one belongs to another namespace; then only the mounted group is known.
func (m mount) dirs(group string) []string {
	below, err := filepath.Rel(m.group, group)
	if err != nil || below == ".." || strings.HasPrefix(below, "../") {
		return []string{m.dir}
	}
	var dirs []string
	for dir := filepath.Join(m.dir, below); ; dir = filepath.Dir(dir) {
		dirs = append(dirs, dir)
		if dir == filepath.Clean(m.dir) {
			return dirs
		}
	}
}

// readLimit returns 0 if there is no limit or no such file, as for the root group in v2.
func readLimit(path string) (int64, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("reading a memory limit: %w", err)
	}
	word := strings.TrimSpace(string(text))
	if word == "max" {
		return 0, nil
	}
	n, err := strconv.ParseInt(word, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("reading a memory limit: %s: %w", path, err)
	}
	if n >= noLimit {
		return 0, nil
	}
	return n, nil
}

func eachLine(path string, do func(line string)) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("reading the control groups: %w", err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		do(lines.Text())
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	return nil
}
