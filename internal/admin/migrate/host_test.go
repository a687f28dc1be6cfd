package migrate

import "testing"

// TestIsNodeAgent: doctor once suggested "systemctl disable --now origin-node.service", the kubelet
// of OpenShift 3, because SkyDNS in it used port 53 of 127.0.0.1.
func TestIsNodeAgent(t *testing.T) {
	for _, name := range []string{
		"origin-node.service", "atomic-openshift-node.service", "origin-master-api.service", "kubelet.service", "snap.microk8s.daemon-kubelite.service",
		"k3s.service", "k3s-agent.service", "rke2-server.service", "rke2-agent.service", "microshift.service", "crio.service", "containerd.service",
		"docker.service", "openvswitch.service", "ovs-vswitchd.service", "ovnkube-node", "sdn", "openshift-sdn.service", "hyperkube", "openshift",
		"NetworkManager.service", "k0scontroller.service", "libvirtd.service", "virtnetworkd.service", "lxc-net.service", "snap.lxd.daemon.service",
	} {
		if !isNodeAgent(name) {
			t.Errorf("%s is not recognized", name)
		}
	}
	for _, name := range []string{"", "dnsmasq.service", "named.service", "unbound.service", "coredns", "systemd-resolved.service", "mykubelet.service", "session-1.scope", "crio-2f.scope"} {
		if isNodeAgent(name) {
			t.Errorf("%s is recognized as a node agent", name)
		}
	}
}

func TestParseContainer(t *testing.T) {
	for _, test := range []struct {
		name, cgroup string
		want         bool
	}{
		{"a pod of CRI-O", "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1.slice/crio-2f.scope\n", true},
		{"a pod, cgroupfs", "11:memory:/kubepods/besteffort/pod1/2f\n1:name=systemd:/kubepods/besteffort/pod1/2f\n", true},
		{"docker, cgroupfs", "1:name=systemd:/docker/2f00\n", true},
		{"docker, systemd", "0::/system.slice/docker-2f.scope\n", true},
		{"podman", "0::/machine.slice/libpod-2f.scope/container\n", true},
		{"docker itself", "0::/system.slice/docker.service\n", false},
		{"a service", "0::/system.slice/dnsmasq.service\n", false},
		{"a service of a system in a container", "0::/docker/2f/system.slice/dnsmasq.service\n", false},
		{"a unit that looks alike", "0::/system.slice/docker-cleanup.service\n", false},
		{"a login", "0::/user.slice/user-0.slice/session-1.scope\n", false},
	} {
		if got := parseContainer(test.cgroup); got != test.want {
			t.Errorf("%s: got %v", test.name, got)
		}
	}
}
