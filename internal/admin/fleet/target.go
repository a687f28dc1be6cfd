package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// PodSelector selects the pods of node-dns, and Container is the daemon's container in them, as the
// chart names both.
const (
	PodSelector = "app.kubernetes.io/name=node-dns"
	Container   = "node-dns"
)

// Target is a node, and the pod of node-dns that answers for it.
type Target struct {
	Node, Pod string
	Addresses []string // of the node
	// Why says why the node cannot be asked, and Fix what to do. Both are empty if it can.
	Why, Fix string
	Since    time.Time // when Why began; zero if unknown
}

// Targets returns a target for each node with Linux, sorted by name. It is pure. namespace is that
// of the pods.
func Targets(nodes []Node, pods []Pod, namespace string) []Target {
	best := map[string]Pod{}
	for _, pod := range pods {
		if other, ok := best[pod.Node]; !ok || rank(pod) < rank(other) {
			best[pod.Node] = pod
		}
	}
	var all []Target
	for _, node := range nodes {
		if node.OS != "" && node.OS != "linux" {
			continue
		}
		t := Target{Node: node.Name, Addresses: node.Addresses}
		pod, ok := best[node.Name]
		switch {
		case !node.LostSince.IsZero():
			t.Why, t.Since = "not asked: the kubelet does not report to the API server", node.LostSince
			t.Fix = "kubectl describe node NODE"
		case !ok:
			t.Why = "not asked: no pod of node-dns in " + namespace
			t.Fix = askRPM("status")
		case pod.Why != "":
			t.Pod, t.Why = pod.Name, "not asked: the pod of node-dns is not running: "+clip(pod.Why)
			t.Fix = fmt.Sprintf("kubectl -n %s describe pod -l %s --field-selector spec.nodeName=NODE", namespace, PodSelector)
		default:
			t.Pod = pod.Name
		}
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b Target) int { return cmp.Compare(a.Node, b.Node) })
	return all
}

// askRPM returns how to run a command of the RPM's node-dns. The profile makes the pod privileged:
// without it, kubectl's documentation says, chroot may fail, and on an enforcing host SELinux
// denies the container access to the host's files.
func askRPM(command string) string {
	return "if the node has the RPM: kubectl debug node/NODE -it --profile=sysadmin --image=busybox -- chroot /host node-dns " + command
}

// rank orders the pods of a node, the best one first. An update has two for a moment.
func rank(p Pod) int {
	switch {
	case p.Why == "" && !p.IsLeaving:
		return 0
	case p.Why == "":
		return 1
	case !p.IsLeaving:
		return 2
	}
	return 3
}
