package procfs

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	unifiedMount = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
	memoryMount  = "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
	hybridMount  = "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n"
	service      = "/system.slice/node-dns.service"
)

func TestMemoryLimit(t *testing.T) {
	rows := map[string]struct {
		cgroup, mounts string
		files          map[string]string // below /sys/fs/cgroup
		want           int64
		err            string
	}{
		"none": {cgroup: "0::" + service + "\n", mounts: unifiedMount, files: map[string]string{
			"system.slice/node-dns.service/memory.max": "max\n", "system.slice/memory.max": "max\n", "system.slice/node-dns.service/memory.high": "max\n",
		}},
		"memory.max": {cgroup: "0::" + service + "\n", mounts: unifiedMount, files: map[string]string{
			"system.slice/node-dns.service/memory.max": "536870912\n", "system.slice/memory.max": "max\n",
		}, want: 512 << 20},
		"memory.high is less": {cgroup: "0::" + service + "\n", mounts: unifiedMount, files: map[string]string{
			"system.slice/node-dns.service/memory.max": "536870912\n", "system.slice/node-dns.service/memory.high": "134217728\n",
		}, want: 128 << 20},
		"the slice above has less": {cgroup: "0::" + service + "\n", mounts: unifiedMount, files: map[string]string{
			"system.slice/node-dns.service/memory.max": "536870912\n", "system.slice/memory.max": "268435456\n",
		}, want: 256 << 20},
		"a container with a namespace of its own": {cgroup: "0::/\n", mounts: unifiedMount, files: map[string]string{"memory.max": "67108864\n"}, want: 64 << 20},
		"a container without":                     {cgroup: "0::/kubepods/pod1/c1\n", mounts: strings.Replace(unifiedMount, " / ", " /kubepods/pod1 ", 1), files: map[string]string{"c1/memory.max": "67108864\n", "memory.max": "33554432\n"}, want: 32 << 20},
		"a group of another namespace":            {cgroup: "0::/../other\n", mounts: unifiedMount, files: map[string]string{"memory.max": "67108864\n"}, want: 64 << 20},
		"the first version": {cgroup: "4:memory:" + service + "\n1:name=systemd:/a\n0::/\n", mounts: memoryMount + hybridMount, files: map[string]string{
			"memory/system.slice/node-dns.service/memory.limit_in_bytes": "104857600\n", "memory/memory.limit_in_bytes": "9223372036854771712\n",
		}, want: 100 << 20},
		"the first version, none": {cgroup: "4:cpu,memory:/\n", mounts: strings.Replace(memoryMount, "rw,memory", "rw,cpu,memory", 1), files: map[string]string{
			"memory/memory.limit_in_bytes": "9223372036854710272\n", // pages of 64 KiB
		}},
		"another controller's mount": {cgroup: "2:cpu:/\n", mounts: strings.Replace(memoryMount, "rw,memory", "rw,cpu", 1), files: map[string]string{"memory/memory.limit_in_bytes": "4096\n"}},
		"a path with a space":        {cgroup: "0::/a b\n", mounts: strings.Replace(unifiedMount, "/sys/fs/cgroup", `/sys/fs/c\040group`, 1), files: map[string]string{"../c group/a b/memory.max": "4096\n"}, want: 4096},
		"odd lines":                  {cgroup: "odd\n\n", mounts: "odd - cgroup2\n"},
		"an odd number":              {cgroup: "0::/\n", mounts: unifiedMount, files: map[string]string{"memory.max": "much\n"}, err: "reading a memory limit"},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			files := map[string]string{"../../../proc/self/cgroup": row.cgroup, "../../../proc/self/mountinfo": row.mounts}
			maps.Copy(files, row.files)
			for path, text := range files {
				path = filepath.Join(root, "/sys/fs/cgroup", path)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			got, err := MemoryLimit(root)
			if got != row.want || (err != nil) != (row.err != "") || err != nil && !strings.Contains(err.Error(), row.err) {
				t.Errorf("got %d, %v; want %d, %q", got, err, row.want, row.err)
			}
		})
	}
	if _, err := MemoryLimit(t.TempDir()); err == nil {
		t.Error("no error without /proc")
	}
	if _, err := MemoryLimit(""); err != nil {
		t.Errorf("here: %v", err)
	}
}
