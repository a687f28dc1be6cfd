package migrate

import (
	"path"
	"slices"
	"strings"
)

// agents are the programs that run a node's pods and their network, as patterns of their units' names without ".service", and of
// their processes' names (comm): kubelets, container runtimes, and the SDN. Some have a nameserver on port 53, as SkyDNS in
// OpenShift 3's node process on 127.0.0.1. A node does not survive their end, so no advice and no step stops or disables one.
var agents = []string{
	"origin-node", "atomic-openshift-node", "origin-master*", "atomic-openshift-master*", "openshift", "openshift-sdn*", "hyperkube", "hypershift*",
	"kubelet", "kubelet-*", "snap.microk8s.*", "snap.kubelet*", "k3s", "k3s-*", "k0s*", "rke2", "rke2-*", "microshift", "microshift-*", "etcd",
	"crio", "crio-*", "cri-o", "containerd", "containerd-*", "cri-dockerd", "docker", "docker-*", "dockerd", "podman", "conmon",
	"kube-proxy", "sdn", "sdn-*", "ovs-*", "openvswitch", "openvswitch-*", "ovsdb-server", "ovn-*", "ovnkube*", "node-agent",
	"calico-*", "cilium*", "flanneld", "machine-config-daemon*", "NetworkManager",
}

// IsNodeAgent reports whether a unit or a process is one that a node cannot do without. Names are compared as systemd and
// proc_pid_comm(5) have them; "" is none.
func IsNodeAgent(name string) bool {
	name = strings.TrimSuffix(name, ".service") // a container's scope is crio-ID.scope
	return !strings.HasSuffix(name, ".scope") && slices.ContainsFunc(agents, func(pattern string) bool {
		ok, _ := path.Match(pattern, name) // the patterns are ours
		return ok
	})
}

// containerParts are the beginnings of control groups' names that container runtimes make.
var containerParts = []string{"kubepods", "crio-", "cri-containerd-", "docker-", "libpod-", "nerdctl-"}

// parseContainer reports whether proc_pid_cgroup(5) is that of a process in a container. A service is none, wherever its systemd runs.
func parseContainer(text string) bool {
	for line := range strings.Lines(text) {
		for _, part := range slices.Backward(strings.Split(strings.TrimSpace(line), "/")) {
			if strings.HasSuffix(part, ".service") {
				break
			}
			if part == "docker" || slices.ContainsFunc(containerParts, func(prefix string) bool { return strings.HasPrefix(part, prefix) }) {
				return true
			}
		}
	}
	return false
}

// IsNodeAgent reports whether the holder belongs to what a node cannot do without: a node agent, or a container, which an
// agent would start again.
func (h Holder) IsNodeAgent() bool {
	return h.Container || IsNodeAgent(h.Unit) || h.Unit == "" && IsNodeAgent(h.Name)
}
