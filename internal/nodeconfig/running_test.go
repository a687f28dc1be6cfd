package nodeconfig

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const kubeletKind = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"

// TestKubeletFiles: the merged files have the same result as in the kubelet.
func TestKubeletFiles(t *testing.T) {
	const config, dir = "/etc/kubernetes/kubelet.yaml", "/etc/kubernetes/kubelet.conf.d"
	base := kubeletKind + "clusterDNS: [10.0.0.5]\nclusterDomain: Corp.Test.\nresolvConf: run/x.conf\n"
	const fromBase = "dns=[10.0.0.5]@kubelet.yaml:3 domain=corp.test@kubelet.yaml:4 conf=/etc/kubernetes/run/x.conf@kubelet.yaml:5"
	for _, row := range []struct {
		name     string
		dropIns  string // of KubeletFiles
		files    map[string]string
		want     string
		problems []string // beginnings of the problems
	}{
		{"one file, with a path relative to it", "", map[string]string{config: base}, fromBase, nil},
		{"no keys that node-dns reads", "", map[string]string{config: kubeletKind}, "", nil},
		{"no resolvConf", "", map[string]string{config: kubeletKind + "resolvConf: \"\"\n"}, "conf=@kubelet.yaml:3", nil},
		{
			"drop-ins in name order, with subdirectories", dir, map[string]string{
				config: base, dir + "/20.conf": kubeletKind + "clusterDNS: [10.0.0.7]\n", dir + "/10.conf": kubeletKind + "clusterDNS: [10.0.0.6]\nclusterDomain: a.test\n",
				dir + "/15/x.conf": kubeletKind + "clusterDomain: b.test\n",
			}, "dns=[10.0.0.7]@20.conf:3 domain=b.test@x.conf:3 conf=/etc/kubernetes/run/x.conf@kubelet.yaml:5", nil,
		},
		{"not named .conf", dir, map[string]string{config: base, dir + "/10.yaml": kubeletKind + "clusterDNS: [10.0.0.6]\n", dir + "/.conf.bak": "}"}, fromBase, nil},
		{"list replaces a list, even if empty", dir, map[string]string{config: base, dir + "/10.conf": kubeletKind + "clusterDNS: []\nresolvConf: \"\"\nclusterDomain: \"\"\n"}, "dns=[]@10.conf:3 domain=@10.conf:5 conf=@10.conf:4", nil},
		{"null removes a key", dir, map[string]string{config: base, dir + "/10.conf": kubeletKind + "clusterDNS: null\nresolvConf: ~\n"}, "domain=corp.test@kubelet.yaml:4", nil},
		{"drop-in path relative to the working directory", dir, map[string]string{config: base, dir + "/10.conf": kubeletKind + "resolvConf: y.conf\n"}, "dns=[10.0.0.5]@kubelet.yaml:3 domain=corp.test@kubelet.yaml:4 conf=/work/y.conf@10.conf:3", nil},
		{"a missing file", "", nil, "?dns ?domain ?conf", []string{config + ": no such file"}},
		{"a missing directory", dir, map[string]string{config: base}, "?dns ?domain ?conf", []string{dir + ": no such file"}},
		{
			"invalid value, other values stay", "",
			map[string]string{config: strings.Replace(base, "10.0.0.5", "dns.test", 1)},
			"?dns domain=corp.test@kubelet.yaml:4 conf=/etc/kubernetes/run/x.conf@kubelet.yaml:5",
			[]string{config + ":3:14: clusterDNS[0]: expected an IP address, got \"dns.test\""},
		},
		{"not YAML", "", map[string]string{config: base + "}"}, "?dns ?domain ?conf", []string{config + ":6:1: "}},
		{"too large", "", map[string]string{config: strings.Repeat("#", maxFile+1)}, "?dns ?domain ?conf", []string{config + ":1:1: expected a file of at most 1 MiB"}},
		{"wrong kind", "", map[string]string{config: "kind: NodeConfig\nclusterDNS: [10.0.0.9]\n"}, "?dns ?domain ?conf", []string{config + ":1:7: kind: expected KubeletConfiguration"}},
		{"invalid drop-in, later drop-in sets the key", dir, map[string]string{config: base, dir + "/10.conf": "]", dir + "/20.conf": kubeletKind + "clusterDNS: [10.0.0.7]\n"}, "dns=[10.0.0.7]@20.conf:3 ?domain ?conf", []string{dir + "/10.conf:1:1: "}},
		{"symlink to the directory is not followed", "/etc/link", map[string]string{config: base, dir + "/10.conf": "]"}, fromBase, nil},
		{"symlink with a trailing slash is followed", "/etc/link/", map[string]string{config: base, dir + "/10.conf": kubeletKind + "clusterDNS: [10.0.0.7]\n"}, "dns=[10.0.0.7]@10.conf:3 domain=corp.test@kubelet.yaml:4 conf=/etc/kubernetes/run/x.conf@kubelet.yaml:5", nil},
		{"too many", dir, manyDropIns(dir, maxDropIns+1), "?dns ?domain ?conf", []string{config + ": no such file", dir + ": more than 256 files"}},
		{"file that the kubelet replaced", "/elsewhere", map[string]string{config: base}, "?dns ?domain ?conf", []string{"/elsewhere: the kubelet has other files"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			root := t.TempDir()
			for path, text := range row.files {
				at := filepath.Join(root, path)
				if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(text), 0o644)); err != nil {
					t.Fatal(err)
				}
			}
			if err := errors.Join(os.MkdirAll(filepath.Join(root, "etc"), 0o755), os.Symlink("kubernetes/kubelet.conf.d", filepath.Join(root, "etc/link"))); err != nil {
				t.Fatal(err)
			}
			says := KubeletFiles{
				Config: config, DropIns: row.dropIns, WorkDir: "/work", Root: root, IsOther: func(path string) bool { return path == "/elsewhere" },
			}.Load()
			if got := says.text(); got != row.want {
				t.Errorf("got  %s\nwant %s", got, row.want)
			}
			if len(says.Problems) != len(row.problems) {
				t.Fatalf("%v, want %q", says.Problems, row.problems)
			}
			for i, want := range row.problems {
				if got := says.Problems[i].String(); !strings.HasPrefix(got, want) || strings.Contains(got, root) {
					t.Errorf("got %s, want %s", got, want)
				}
			}
		})
	}
	if says := (KubeletFiles{WorkDir: "/"}).Load(); says != nil {
		t.Errorf("without files: got %+v", says)
	}
}

// text formats s as one line: key=value@FILE:LINE for known keys, ?key for unknown ones.
func (s *KubeletSays) text() string {
	var words []string
	for _, key := range []struct{ short, name, value string }{
		{"dns", KeyClusterDNS, fmt.Sprint(s.DNS)}, {"domain", KeyClusterDomain, s.Domain.Relative()}, {"conf", KeyResolvConf, s.ResolvConf},
	} {
		source, isSaid := s.Sources[key.name]
		switch {
		case isSaid && s.Unknown[key.name]:
			words = append(words, "both:"+key.short)
		case isSaid:
			words = append(words, fmt.Sprintf("%s=%s@%s:%d", key.short, key.value, filepath.Base(source.File), source.Line))
		case s.Unknown[key.name]:
			words = append(words, "?"+key.short)
		}
	}
	return strings.Join(words, " ")
}

func manyDropIns(dir string, n int) map[string]string {
	files := map[string]string{}
	for i := range n {
		files[fmt.Sprintf("%s/%03d.conf", dir, i)] = kubeletKind
	}
	return files
}

// TestUnseen: a file that the caller may not see is not faulty.
func TestUnseen(t *testing.T) {
	for _, row := range []struct {
		name string
		err  error
		want bool
	}{
		{"closed", &os.PathError{Op: "open", Path: "/x", Err: os.ErrPermission}, true},
		{"elsewhere", ErrElsewhere, true},
		{"missing", &os.PathError{Op: "open", Path: "/x", Err: os.ErrNotExist}, false},
		{"a fault", &Fault{File: "/x", Line: 1, Column: 1}, false},
	} {
		if got := (KubeletProblem{"/x", row.err}).IsUnseen(); got != row.want {
			t.Errorf("%s: %t", row.name, got)
		}
	}
	for _, key := range kubeletKeys {
		if !slices.Contains([]string{KeyClusterDNS, KeyClusterDomain, KeyResolvConf}, key.name) {
			t.Errorf("%s is read, but KubeletSays has no field for it", key.name)
		}
	}
}
