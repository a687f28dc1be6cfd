package doctor

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// podUID finds the UID of a pod in cgroup(7) of one of its processes: systemd's slices have "_" for
// "-", and static pods have a hash.
var podUID = regexp.MustCompile(`pod([0-9a-f][0-9a-f_-]{30,34}[0-9a-f])`)

// namePods sets Pod of the pods that got no answer. The kubelet names the directory of a pod's logs
// after its namespace, name and UID.
func (g *gathering) namePods(ctx context.Context, probes []LocalProbe) {
	spaces := map[int]os.FileInfo{}
	for i, p := range probes {
		if info, err := os.Stat(p.Namespace); err == nil && p.failure() != "" {
			spaces[i] = info
		}
	}
	if len(spaces) == 0 {
		return
	}
	processes, _ := filepath.Glob(g.at("/proc/[0-9]*")) // the pattern is valid
	for _, process := range processes {
		space, err := os.Stat(filepath.Join(process, "ns/net"))
		if err != nil {
			continue
		}
		if ctx.Err() != nil {
			return
		}
		for i, info := range spaces {
			if !os.SameFile(space, info) {
				continue
			}
			if name := g.podOf(process); name != "" {
				probes[i].Pod = name
				delete(spaces, i)
			}
		}
	}
}

// podOf returns the pod of a process as NAMESPACE/NAME, or "".
func (g *gathering) podOf(process string) string {
	groups, err := os.ReadFile(filepath.Join(process, "cgroup"))
	if err != nil {
		return ""
	}
	found := podUID.FindSubmatch(groups)
	if found == nil {
		return ""
	}
	uid := strings.ReplaceAll(string(found[1]), "_", "-")
	dirs, _ := filepath.Glob(g.at("/var/log/pods/*_*_" + uid)) // the pattern is valid: a UID has no special characters
	if len(dirs) != 1 {
		return ""
	}
	words := strings.Split(filepath.Base(dirs[0]), "_")
	return words[0] + "/" + words[1]
}
