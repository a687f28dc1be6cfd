package doctor

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/node-dns/node-dns/internal/test/lab"
)

// TestNamePods: a pod without an answer is reported by name, whichever of its processes was found,
// and with every cgroup driver.
func TestNamePods(t *testing.T) {
	const web, etcd, other = "0b1cd2e3-0000-4000-8000-00000000aaaa", "0123456789abcdef0123456789abcdef", "0b1cd2e3-0000-4000-8000-00000000bbbb"
	files := map[string]string{
		"var/log/pods/shop_web-0_" + web + "/app/0.log": "", "var/log/pods/kube-system_etcd-node-7_" + etcd + "/app/0.log": "",
	}
	namespaces := map[string]string{} // of the processes
	process := func(pid, namespace, cgroup string) {
		files["run/netns/"+namespace], files["proc/"+pid+"/cgroup"] = "", cgroup
		namespaces[pid] = namespace
	}
	process("5", "web", "0::/user.slice/user-0.slice\n") // such as ip netns exec
	process("7", "web", "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0b1cd2e3_0000_4000_8000_00000000aaaa.slice/cri-containerd-77.scope\n")
	process("8", "etcd", "4:memory:/kubepods/burstable/pod"+etcd+"/99\n")
	process("9", "vpn", "0::/system.slice/openvpn.service\n")
	process("10", "gone", "0::/kubepods/besteffort/pod"+other+"/99\n")
	process("11", "fine", "0::/kubepods/besteffort/pod"+web+"/99\n")
	root := lab.Tree(t, files)
	for pid, namespace := range namespaces {
		ns := filepath.Join(root, "proc", pid, "ns")
		if err := errors.Join(os.Mkdir(ns, 0o755), os.Link(filepath.Join(root, "run/netns", namespace), filepath.Join(ns, "net"))); err != nil {
			t.Fatal(err)
		}
	}

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
