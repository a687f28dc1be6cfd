package procfs

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestValues(t *testing.T) {
	for _, row := range []struct {
		args string
		want []string
	}{
		{"kubelet --resolv-conf=/a", []string{"/a"}},
		{"kubelet --resolv-conf /a --v 2", []string{"/a"}},
		{"kubelet --resolv-conf=/a --resolv-conf=", []string{"/a", ""}},
		{"kubelet --resolv_conf=/a_b", []string{"/a_b"}},
		{"kubelet --resolv-conf", nil},
		{"kubelet --resolv-config=/a", nil},
		{"kubelet -resolv-conf=/a", nil}, // a single dash is for one-letter flags (pflag)
		{"kubelet --v=2 -- --resolv-conf=/a", nil},
		{"", nil},
	} {
		p := Process{Args: strings.Fields(row.args)}
		if got := p.Values("--resolv-conf"); !slices.Equal(got, row.want) {
			t.Errorf("%s: %q", row.args, got)
		}
		if got, ok := p.Value("--resolv-conf"); ok != (len(row.want) > 0) || ok && got != row.want[len(row.want)-1] {
			t.Errorf("%s: %q %t", row.args, got, ok)
		}
	}
}

// TestTree: Named reads the /proc below root, and finds nothing without one.
func TestTree(t *testing.T) {
	root := t.TempDir()
	if got := Named(root, "kubelet"); got != nil {
		t.Errorf("%+v", got)
	}
	if _, ok := Host(root, "kubelet"); ok {
		t.Error("Host found a process")
	}
	for path, text := range map[string]string{
		"60/comm": "kubelet\n", "60/cmdline": "kubelet\x00--resolv-conf=/etc/shadow\x00", "60/status": "Name:\tkubelet\nUid:\t4242\t4242\t4242\t4242\n", // another user's
		"90/comm": "kubelet\n", "90/status": "Uid:\t0\t0\t0\t0\n", "90/cmdline": "/usr/bin/kubelet\x00--v=2\x00",
		"100/comm": "kubelet\n", "100/status": "Uid:\t0\t0\t0\t0\n", "100/cmdline": "kubelet\x00--resolv-conf\x00\x00",
		"7/comm": "kubelets\n", "self/comm": "kubelet\n", "8/cmdline": "kubelet\x00",
	} {
		at := filepath.Join(root, "proc", path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	all := Named(root, "kubelet")
	if len(all) != 3 || all[0].PID != 60 || all[1].PID != 90 || !slices.Equal(all[1].Args, []string{"/usr/bin/kubelet", "--v=2"}) || all[2].PID != 100 {
		t.Errorf("%+v", all)
	}
	if v, ok := all[2].Value("--resolv-conf"); !ok || v != "" {
		t.Errorf("empty value at the end: %q %t", v, ok)
	}
	if p, ok := Host(root, "kubelet"); !ok || p.PID != 90 {
		t.Errorf("%+v %t", p, ok)
	}
	for pid, namespace := range map[string]string{"self": "net:[1]", "90": "net:[2]", "100": "net:[1]"} {
		dir := filepath.Join(root, "proc", pid, "ns")
		if err := errors.Join(os.MkdirAll(dir, 0o755), os.Symlink(namespace, filepath.Join(dir, "net"))); err != nil {
			t.Fatal(err)
		}
	}
	if p, ok := Host(root, "kubelet"); !ok || p.PID != 100 {
		t.Errorf("with a container's process: %+v %t", p, ok)
	}
}

// TestPlaces: the working directory of a process, and whether it sees the same files as we do.
func TestPlaces(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "proc/90")
	if err := errors.Join(os.MkdirAll(filepath.Join(root, "etc"), 0o755), os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(root, "etc/a"), nil, 0o644),
		os.WriteFile(filepath.Join(dir, "comm"), []byte("kubelet\n"), 0o644)); err != nil {
		t.Fatal(err)
	}
	p := Named(root, "kubelet")[0]
	if got := p.Dir(); got != "/" || p.HasOther("/etc/a") {
		t.Errorf("hidden: %s, %t", got, p.HasOther("/etc/a"))
	}
	if err := errors.Join(os.Symlink("/var/lib/kubelet", filepath.Join(dir, "cwd")), os.Symlink(root, filepath.Join(dir, "root"))); err != nil {
		t.Fatal(err)
	}
	if got := p.Dir(); got != "/var/lib/kubelet" || p.HasOther("/etc/a") || p.HasOther("/etc/none") {
		t.Errorf("in our own root: %s, %t, %t", got, p.HasOther("/etc/a"), p.HasOther("/etc/none"))
	}
	other := t.TempDir()
	if err := errors.Join(os.MkdirAll(filepath.Join(other, "etc"), 0o755), os.WriteFile(filepath.Join(other, "etc/a"), nil, 0o644), os.WriteFile(filepath.Join(other, "etc/b"), nil, 0o644),
		os.Remove(filepath.Join(dir, "root")), os.Symlink(other, filepath.Join(dir, "root"))); err != nil {
		t.Fatal(err)
	}
	if !p.HasOther("/etc/a") || !p.HasOther("/etc/b") || p.HasOther("/etc/none") {
		t.Errorf("in another root: %t, %t, %t", p.HasOther("/etc/a"), p.HasOther("/etc/b"), p.HasOther("/etc/none"))
	}
}

// TestRunning uses a real process.
func TestRunning(t *testing.T) {
	const name = "process-of-test"
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.Symlink(shell, path); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "-c", "read line", "--resolv-conf=/a b")
	if cmd.Dir, err = filepath.EvalSymlinks(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer in.Close()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		all := Named("", name)
		i := slices.IndexFunc(all, func(p Process) bool { return p.PID == cmd.Process.Pid })
		var p Process
		if i >= 0 {
			p = all[i]
		}
		if value, _ := p.Value("--resolv-conf"); value == "/a b" {
			if p.Dir() != cmd.Dir || p.HasOther(shell) || p.HasOther("/nowhere") {
				t.Errorf("Dir is %s, want %s; HasOther of %s: %t", p.Dir(), cmd.Dir, shell, p.HasOther(shell))
			}
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%+v", all)
		}
	}
}

// TestHostIsRoots: any user can run a set-user-ID program through a link named kubelet with any
// command line. For example, su with --resolv-conf=/etc/shadow waits for a password as root. A
// container's root can do so too.
func TestHostIsRoots(t *testing.T) {
	const root, kubelet = "0\t0\t0\t0", "0::/system.slice/kubelet.service\n"
	for _, row := range []struct {
		name, uids, groups string
		setuid, noSystemd  bool
		want               bool
	}{
		{name: "kubelet.service", uids: root, groups: kubelet, want: true},
		{name: "an agent's unit, with control groups of version 1", uids: root, groups: "3:pids:/x\n1:name=systemd:/system.slice/origin-node.service\n0::/\n", want: true},
		{name: "a group of its own", uids: root, groups: "0::/podruntime.slice/kubelet\n", want: true},
		{name: "a slice within a slice", uids: root, groups: "0::/system.slice/system-kubelet.slice/kubelet@a.service\n", want: true},
		{name: "su, which waits for a password", uids: "65534\t0\t0\t0", groups: kubelet},
		{name: "a saved user", uids: "0\t0\t65534\t0", groups: kubelet},
		{name: "a file system user", uids: "0\t0\t0\t65534", groups: kubelet},
		{name: "another user", uids: "1000\t1000\t1000\t1000", groups: kubelet},
		{name: "no users", uids: "", groups: kubelet},
		{name: "sudo, which is root in all, within a service", uids: root, groups: "0::/system.slice/httpd.service\n", setuid: true},
		{name: "sudo in a session", uids: root, groups: "0::/user.slice/user-1000.slice/session-3.scope\n"},
		{name: "a user's own service", uids: root, groups: "0::/user.slice/user-1000.slice/user@1000.service/app.slice/kubelet.service\n"},
		{name: "a user's service manager", uids: root, groups: "0::/user.slice/user-0.slice/user@0.service\n"},
		{name: "a pod's root", uids: root, groups: "0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-1.scope\n"},
		{name: "a pod's root, by cgroupfs", uids: root, groups: "0::/kubepods/pod1/1/system.slice/kubelet.service\n"},
		{name: "systemd in a container", uids: root, groups: "0::/machine.slice/libpod-1.scope/system.slice/kubelet.service\n"},
		{name: "a container below a service", uids: root, groups: "0::/system.slice/app.service/kubelet\n"},
		{name: "no group", uids: root, groups: "0::/\n"},
		{name: "no group information", uids: root},
		{name: "a host without systemd", uids: root, groups: "0::/\n", noSystemd: true, want: true},
		{name: "su on a host without systemd", uids: "65534\t0\t0\t0", groups: "0::/\n", noSystemd: true},
	} {
		t.Run(row.name, func(t *testing.T) {
			tree := t.TempDir()
			proc := filepath.Join(tree, "proc/90")
			program, mode := filepath.Join(tree, "program"), os.FileMode(0o755)
			if row.setuid {
				mode |= os.ModeSetuid
			}
			err := errors.Join(os.MkdirAll(proc, 0o755), os.WriteFile(program, nil, 0o755), os.Chmod(program, mode), os.Symlink(program, filepath.Join(proc, "exe")))
			if !row.noSystemd {
				err = errors.Join(err, os.MkdirAll(filepath.Join(tree, "run/systemd/system"), 0o755))
			}
			for name, text := range map[string]string{"comm": "kubelet\n", "status": "Name:\tkubelet\nUid:\t" + row.uids + "\n", "cgroup": row.groups} {
				err = errors.Join(err, os.WriteFile(filepath.Join(proc, name), []byte(text), 0o644))
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, ok := Host(tree, "kubelet"); ok != row.want {
				t.Errorf("accepted: %v, want %v", ok, row.want)
			}
		})
	}
}
