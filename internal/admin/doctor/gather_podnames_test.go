package doctor

import (
	"os"
	"path/filepath"
	"testing"
)

// TestNamePods: a pod without an answer is reported by name, whichever of its processes was found,
// and with every cgroup driver.
func TestNamePods(t *testing.T) {
	const web, etcd, other = "0b1cd2e3-0000-4000-8000-00000000aaaa", "0123456789abcdef0123456789abcdef", "0b1cd2e3-0000-4000-8000-00000000bbbb"
	root := t.TempDir()
	write := func(path, text string) {
		t.Helper()
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	process := func(pid, namespace, cgroup string) {
		t.Helper()
		write("proc/"+pid+"/cgroup", cgroup)
		if err := os.Mkdir(filepath.Join(root, "proc", pid, "ns"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Link(filepath.Join(root, "run/netns", namespace), filepath.Join(root, "proc", pid, "ns/net")); err != nil {
			t.Fatal(err)
		}
	}
	for _, namespace := range []string{"web", "etcd", "vpn", "gone", "fine"} {
		write("run/netns/"+namespace, "")
	}
	for _, logs := range []string{"shop_web-0_" + web, "kube-system_etcd-node-7_" + etcd} {
		write("var/log/pods/"+logs+"/app/0.log", "")
	}
	process("5", "web", "0::/user.slice/user-0.slice\n") // such as ip netns exec
	process("7", "web", "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0b1cd2e3_0000_4000_8000_00000000aaaa.slice/cri-containerd-77.scope\n")
	process("8", "etcd", "4:memory:/kubepods/burstable/pod"+etcd+"/99\n")
	process("9", "vpn", "0::/system.slice/openvpn.service\n")
	process("10", "gone", "0::/kubepods/besteffort/pod"+other+"/99\n")
	process("11", "fine", "0::/kubepods/besteffort/pod"+web+"/99\n")

	var probes []LocalProbe
	for _, namespace := range []string{"web", "etcd", "vpn", "gone", "fine", "none"} {
		p := LocalProbe{Namespace: filepath.Join(root, "run/netns", namespace)}
		if namespace != "fine" {
			p.UDP.Err = errSilent
		}
		probes = append(probes, p)
	}
	g := &gathering{root: root}
	g.namePods(t.Context(), probes)
	for i, want := range []string{"shop/web-0", "kube-system/etcd-node-7", "", "", "", ""} {
		if probes[i].Pod != want {
			t.Errorf("%s: got %q, want %q", probes[i].Namespace, probes[i].Pod, want)
		}
	}
}
