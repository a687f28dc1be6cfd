package netns

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/admin/doctor"
	"github.com/node-dns/node-dns/internal/test/lab"
)

const (
	serviceDNS = "10.96.0.10"  // the address of the cluster's DNS Service
	clusterPod = "10.128.9.53" // the pod behind it, on another node
	deniedPod  = "10.128.0.45" // a pod whose policy allows only clusterPod
)

// addPod adds a pod with a link of its own and routes, as Calico does.
func (n *podNode) addPod(name, addr string) *lab.Namespace {
	n.t.Helper()
	pod := n.l.Namespace(name)
	n.l.Veth("cali-"+name, pod, "eth0")
	n.l.Run("ip", "route", "add", addr+"/32", "dev", "cali-"+name)
	pod.Run("ip", "addr", "add", addr+"/32", "dev", "eth0")
	pod.Run("ip", "route", "add", bridgeIP+"/32", "dev", "eth0")
	pod.Run("ip", "route", "add", "default", "via", bridgeIP)
	return pod
}

// TestPolicyDeniesOnePod: the network policy of one pod among several allows only the cluster's DNS
// pods. Its queries go to the Service's address, which interception makes local, so that Calico's
// rules drop them. Too few of all packets are dropped for the helper to stop, and doctor names the
// pod. With the address in the policy, the pod gets answers.
func TestPolicyDeniesOnePod(t *testing.T) {
	lab.Need(t, "nft", "dig")
	n := newPodNode(t, "", "www.example.com. 300 IN A 192.0.2.80\n", "podCIDRs: [10.128.0.0/14]\nintercept: ["+serviceDNS+"]\n")
	var pods []*lab.Namespace
	for i := range 4 {
		pods = append(pods, n.addPod(fmt.Sprintf("pod%d", i), fmt.Sprintf("10.128.0.%d", 42+i)))
	}
	denied := pods[3]
	if err := os.MkdirAll("/run/node-dns-intercept", 0o755); err != nil {
		t.Fatal(err)
	}
	n.l.Start(lab.Command{Argv: []string{lab.Binary(t, "node-dns-intercept"), "run"}})
	isOn := func() bool {
		status, err := control.FetchStatus(t.Context(), control.SocketPath("/"))
		return err == nil && status.Interception != nil && len(status.Interception.Addresses) == 1 && status.Interception.Addresses[0].On
	}
	n.l.Await("interception", isOn)
	ask := func(pod *lab.Namespace) (string, error) {
		return pod.Try("dig", "+tries=1", "+time=1", "+short", "@"+serviceDNS, "www.example.com.")
	}
	for i, pod := range pods {
		if out, err := ask(pod); err != nil || !strings.Contains(out, "192.0.2.80") {
			t.Fatalf("without a policy, pod %d gets %s: %v", i, out, err)
		}
	}
	n.l.Run("nft", "table ip calico { chain fromPod { ip daddr "+clusterPod+" accept; drop; }; chain input { type filter hook input priority 0; iifname cali-pod3 jump fromPod; }; }")
	if out, err := ask(denied); err == nil {
		t.Fatalf("with the policy, the pod gets %s", out)
	}
	r := diagnose(t, n.l)
	wantFinding(t, r, "clients", doctor.Warn, "1 of 4 pods get no answer from "+serviceDNS+":53", "queried from "+deniedPod+" in /run/netns/pod3", "allow port 53 to "+serviceDNS)
	wantFinding(t, r, "interception", doctor.OK, "pods' queries to "+serviceDNS+" come to this node")
	if !isOn() {
		t.Error("the pod that is denied ended interception for all")
	}
	n.l.Run("nft", "insert", "rule", "ip", "calico", "fromPod", "ip", "daddr", serviceDNS, "accept")
	if out, err := ask(denied); err != nil || !strings.Contains(out, "192.0.2.80") {
		t.Errorf("with the address in the policy, the pod gets %s: %v", out, err)
	}
	for _, f := range diagnose(t, n.l).Findings {
		if f.Check == "clients" && f.Level != doctor.OK {
			t.Errorf("with the address in the policy: %+v", f)
		}
	}
}
