package netns

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/internal/test/kubetest"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// podNode is a cluster node without NetworkManager, with one pod.
type podNode struct {
	t    testing.TB
	l    *lab.Lab
	pod  *lab.Namespace
	api  *kubetest.Server
	site *dnstest.Server // upstream nameserver
}

const (
	bridgeIP = "10.128.0.1" // the node's address for its pods
	podIP    = "10.128.0.41"

	clusterSettings = `nodeName: node-7
listen: ` + bridgeIP + "\n"
)

// newPodNode returns a node with these additional lines in node-dns.yaml. Its daemon has read the
// API.
func newPodNode(t testing.TB, cluster, site, settings string) *podNode {
	t.Helper()
	n := bootPodNode(t, cluster, site, settings)
	n.l.WriteFile("/etc/node-dns/kubeconfig", string(n.api.Kubeconfig()))
	n.start()
	return n
}

// bootPodNode is newPodNode without a kubeconfig and without the daemon.
func bootPodNode(t testing.TB, cluster, site, settings string) *podNode {
	t.Helper()
	// Start the servers first: they must end after the daemon, because they wait for its watches.
	n := &podNode{t: t, api: kubetest.NewServer(t), site: dnstest.NewServer(t, site)}
	n.api.Apply(cluster)
	n.l = lab.New(t)
	n.pod = n.l.Namespace("pod")
	n.l.Veth("bridge0", n.pod, "eth0")
	n.l.Addr("bridge0", bridgeIP+"/24")
	n.pod.Run("ip", "addr", "add", podIP+"/24", "dev", "eth0")
	n.l.WriteFile(resolvConf, "search example.com\nnameserver "+bridgeIP+"\n")
	n.setOptions("ndots:5")
	n.l.WriteFile("/etc/netns/pod/nsswitch.conf", "hosts: files dns\n")
	n.l.WriteFile("/etc/node-dns/node-dns.yaml", clusterSettings+"upstreams: [\""+n.site.Addr().String()+"\"]\n"+settings)
	n.l.Run("install", "-d", "-o", strconv.Itoa(nobody), "/var/cache/node-dns") // like systemd's CacheDirectory=
	return n
}

// setOptions writes the pod's resolv.conf like the kubelet for a pod in namespace shop, whose
// options are only ndots:5. ip-netns(8) makes it /etc/resolv.conf for programs in the pod.
func (n *podNode) setOptions(options string) {
	n.t.Helper()
	n.l.WriteFile("/etc/netns/pod/resolv.conf", "nameserver "+bridgeIP+"\n"+
		"search shop.svc.cluster.local svc.cluster.local cluster.local example.com\noptions "+options+"\n")
}

// start starts the daemon and waits until it has read the API.
func (n *podNode) start() {
	n.t.Helper()
	startDaemon(n.t, n.l)
	n.l.Await("the API to have been read", func() bool {
		status, err := control.FetchStatus(n.t.Context(), control.SocketPath("/"))
		return err == nil && status.Cluster.Resolver != nil && status.Cluster.Resolver.Phase == "synced"
	})
}

// queries returns the number of queries that the daemon received.
func (n *podNode) queries() int {
	n.t.Helper()
	status, err := control.FetchStatus(n.t.Context(), control.SocketPath("/"))
	if err != nil {
		n.t.Fatal(err)
	}
	return int(status.Queries.UDP + status.Queries.TCP)
}

// forwarded returns the address queries that the site received since before, as names with types.
func (n *podNode) forwarded(before int) []string {
	var all []string
	for _, q := range n.site.Received()[before:] {
		question := q.Msg.Question[0]
		if question.Qtype == dns.TypeA || question.Qtype == dns.TypeAAAA {
			all = append(all, question.Name+" "+dns.TypeToString[question.Qtype])
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// library is a resolver library for programs in a pod.
type library struct {
	name     string
	compiler []string // for lookup.c; nil means main.go
}

var libraries = []library{
	{name: "glibc", compiler: []string{"gcc"}},
	{name: "musl", compiler: []string{"musl-gcc", "-static"}},
	{name: "go"},
}

// program builds the lookup program: see testdata.
func (lib library) program(t testing.TB) string {
	t.Helper()
	if lib.compiler == nil {
		return lab.Binary(t, "lookup")
	}
	if _, err := os.Stat("/etc/redhat-release"); err == nil && lib.name == "musl" {
		t.Skip("there is no musl for RHEL")
	}
	lab.Need(t, lib.compiler[0])
	path := filepath.Join(t.TempDir(), "lookup")
	argv := append(lib.compiler[1:len(lib.compiler):len(lib.compiler)], "-O", "-Wall", "-Werror", "-o", path, "testdata/lookup.c")
	if out, err := exec.Command(lib.compiler[0], argv...).CombinedOutput(); err != nil {
		t.Fatalf("compiling lookup.c: %v\n%s", err, out)
	}
	return path
}

// lookup looks up a name in the pod that many times and returns the last result.
func (n *podNode) lookup(program string, times int, name string) string {
	n.t.Helper()
	return strings.TrimSpace(n.pod.Run(program, strconv.Itoa(times), name))
}
