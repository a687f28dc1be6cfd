package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/node-dns/node-dns/internal/test/lab"
	"github.com/node-dns/node-dns/test/e2e/kube"
)

// ciliumCRD returns the kind CiliumLocalRedirectPolicy with the fields that it has in all supported
// versions of Cilium. The API server refuses others. Cilium's own definition has more.
func ciliumCRD(t testing.TB) *kube.Object {
	return object(t, `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ciliumlocalredirectpolicies.cilium.io}
spec:
  group: cilium.io
  scope: Namespaced
  names: {plural: ciliumlocalredirectpolicies, singular: ciliumlocalredirectpolicy, kind: CiliumLocalRedirectPolicy}
  versions:
  - name: v2
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [redirectFrontend, redirectBackend]
            properties:
              redirectFrontend:
                type: object
                properties:
                  serviceMatcher:
                    type: object
                    required: [serviceName, namespace]
                    properties:
                      serviceName: {type: string}
                      namespace: {type: string}
                      toPorts: &ports
                        type: array
                        items:
                          type: object
                          required: [port, protocol]
                          properties:
                            name: {type: string}
                            port: {type: string}
                            protocol: {type: string, enum: [TCP, UDP]}
              redirectBackend:
                type: object
                required: [localEndpointSelector, toPorts]
                properties:
                  localEndpointSelector:
                    type: object
                    properties:
                      matchLabels: {type: object, additionalProperties: {type: string}}
                  toPorts: *ports
`)
}

// localRedirectPolicy is the part of a CiliumLocalRedirectPolicy that the chart uses.
type localRedirectPolicy struct {
	Spec struct {
		RedirectFrontend struct {
			ServiceMatcher struct {
				ServiceName, Namespace string
				ToPorts                []policyPort
			}
		}
		RedirectBackend struct {
			LocalEndpointSelector metav1.LabelSelector
			ToPorts               []policyPort
		}
	}
}

type policyPort struct{ Name, Port, Protocol string }

// cilium simulates Cilium on the node of a proxyBed, without kube-proxy: it leads queries to the
// Service kube-dns to the pods that a CiliumLocalRedirectPolicy selects and that are ready, and to
// kube-dns if no such pod exists. As with Cilium's socket load balancer, the kernel does not track
// these connections. One goroutine does all of this.
type cilium struct {
	b     *proxyBed
	rules string // as last written
}

// startCilium runs until the test ends. It returns when queries reach kube-dns.
func startCilium(b *proxyBed) {
	b.t.Helper()
	c := &cilium{b: b}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			if err := c.sync(ctx); err != nil && ctx.Err() == nil {
				b.t.Errorf("cilium: %v", err)
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
	}()
	b.t.Cleanup(func() {
		cancel()
		<-ended
		if b.t.Failed() {
			b.t.Logf("the last rules:\n%s", c.rules)
		}
	})
	if !lab.Poll(patience, func() bool { return b.reachesKubeDNS() == nil }) {
		b.t.Fatal(b.reachesKubeDNS())
	}
}

// sync makes the rules follow the policies and the pods.
func (c *cilium) sync(ctx context.Context) error {
	ready, err := c.backends(ctx)
	if err != nil {
		return err
	}
	rules := c.rulesFor(ready)
	if rules == c.rules {
		return nil
	}
	c.rules = rules
	if out, err := c.b.node.try("nft", rules); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// backends returns the addresses of the pods that queries are redirected to.
func (c *cilium) backends(ctx context.Context) (addrs []string, err error) {
	policies, err := c.b.cluster.Client(object(c.b.t, "{apiVersion: cilium.io/v2, kind: CiliumLocalRedirectPolicy, metadata: {name: any, namespace: kube-system}}")).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	pods, err := c.b.cluster.Client(object(c.b.t, "{apiVersion: v1, kind: Pod, metadata: {name: any, namespace: kube-system}}")).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, item := range policies.Items {
		var policy localRedirectPolicy
		text, err := item.MarshalJSON()
		if err == nil {
			err = json.Unmarshal(text, &policy)
		}
		if err != nil {
			return nil, err
		}
		for _, item := range pods.Items {
			var pod corev1.Pod
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(item.Object, &pod); err != nil {
				return nil, err
			}
			if policy.selects(pod) {
				addrs = append(addrs, pod.Status.PodIP)
			}
		}
	}
	slices.Sort(addrs)
	return addrs, nil
}

// selects reports whether the policy redirects queries to a pod: it has the labels, it is ready,
// and its ports and those of the Service have the names of the policy.
func (p localRedirectPolicy) selects(pod corev1.Pod) bool {
	selector, err := metav1.LabelSelectorAsSelector(&p.Spec.RedirectBackend.LocalEndpointSelector)
	matcher, ports := p.Spec.RedirectFrontend.ServiceMatcher, p.Spec.RedirectBackend.ToPorts
	if err != nil || !selector.Matches(labels.Set(pod.Labels)) || matcher.ServiceName != "kube-dns" || matcher.Namespace != pod.Namespace {
		return false
	}
	if want := []policyPort{{"dns", "53", "UDP"}, {"dns-tcp", "53", "TCP"}}; !slices.Equal(matcher.ToPorts, want) || !slices.Equal(ports, want) {
		return false
	}
	var have []policyPort
	for _, c := range pod.Spec.Containers {
		for _, port := range c.Ports {
			have = append(have, policyPort{port.Name, fmt.Sprint(port.ContainerPort), string(port.Protocol)})
		}
	}
	return isReady(pod) && !slices.ContainsFunc(ports, func(p policyPort) bool { return !slices.Contains(have, p) })
}

// nodeDNSPods are the first addresses that the CNI plugin gives pods, after the client's.
var nodeDNSPods = []string{"10.244.1.11", "10.244.1.12", "10.244.1.13"}

// rulesFor returns the rules that lead queries to these pods, in turns. A pod's own queries come
// back to itself, from the address that Cilium uses for that. It is pure.
func (c *cilium) rulesFor(ready []string) string {
	const chain, own = "table ip cilium {}\nflush table ip cilium\ntable ip cilium {\nchain pre {\ntype filter hook prerouting priority raw\n", "169.254.42.1"
	service, rules := clusterDNS.Addr().String(), chain
	rule := func(format string, args ...any) {
		rules += fmt.Sprintf(format+" accept\n", args...)
	}
	query, response := "meta l4proto {tcp, udp} th dport 53 notrack", "meta l4proto {tcp, udp} th sport 53 notrack"
	pods := strings.Join(nodeDNSPods, ", ")
	backends := ready
	// node-dns queries kube-dns at its own address.
	rule("ip saddr %s ip daddr { %s } %s", kubeDNSPod, pods, response)
	for _, addr := range ready {
		rule("ip saddr %s ip daddr %s %s ip daddr set %s ip saddr set %s", addr, service, query, addr, own)
		rule("ip saddr %s ip daddr %s %s ip daddr set %s ip saddr set %s", addr, own, response, addr, service)
	}
	if len(backends) == 0 {
		backends = []string{kubeDNSPod}
	}
	var turns []string
	for i, addr := range backends {
		turns = append(turns, fmt.Sprintf("%d : %s", i, addr))
	}
	rule("ip daddr %s %s ip daddr set numgen inc mod %d map { %s }", service, query, len(backends), strings.Join(turns, ", "))
	rule("ip saddr { %s, %s } %s ip saddr set %s", kubeDNSPod, pods, response, service)
	return rules + "}\n}\n"
}

// TestChartCilium: with Cilium in place of kube-proxy, `helm install` with cilium.enabled moves the
// queries of pods to node-dns in a pod with a network of its own, and `helm uninstall` moves them
// back. No query is lost in between, nor while the pod is replaced.
//
// Helm, the programs of Kubernetes, and containerd are the real ones. The test simulates Cilium:
// see cilium.
func TestChartCilium(t *testing.T) {
	const some = interceptRate / 4
	lab.NeedPrograms(t, "nft")
	c := newProxyCluster(t, bed4, "daemonset-controller", "garbage-collector-controller", "root-ca-certificate-publisher-controller")
	create(t, c, ciliumCRD(t))
	b := newChartBed(newProxyBed(t, c, bed4))
	startCilium(b.proxyBed)
	values := fmt.Sprintf("cilium: {enabled: true}\nconfig: {podCIDRs: [%s]}\nimage: {repository: test, tag: old}\nminReadySeconds: 1\n", podNetwork)

	b.phase("before", 0, func(l *podLoad) { b.awaitAnswers(l, kubeDNSAnswer, interceptRate) })
	b.phase("helm install", 0, func(l *podLoad) {
		b.release("install", values)
		b.awaitAnswers(l, nodeDNSAnswer, some)
		b.awaitPods("test:old")
	})
	if !lab.Poll(patience, func() bool {
		return strings.Contains(b.metrics(nodeDNSPods[0]), `nodedns_intercepted{address="10.96.0.10"} 1`)
	}) {
		t.Errorf("node-dns does not see that its own queries to the Service are redirected:\n%s", b.metrics(nodeDNSPods[0]))
	}
	if tables, err := b.k.beside("sh", "-c", "for pod in /run/netns/*; do nsenter --net=$pod nft list tables; done"); err != nil || tables != "" {
		t.Errorf("the pods have the tables %s, %v", tables, err)
	}
	b.checkNames()
	b.checkTroubles(0)
	b.phase("helm upgrade to another image", 0, func(l *podLoad) {
		b.release("upgrade", strings.Replace(values, "old", "new", 1))
		b.awaitPods("test:new")
		b.awaitAnswers(l, nodeDNSAnswer, some)
	})
	b.phase("helm uninstall", 0, func(l *podLoad) {
		b.helm.run("uninstall", "node-dns")
		b.awaitPods()
		b.awaitAnswers(l, kubeDNSAnswer, interceptRate)
	})
	b.checkTroubles(0)
}

// metrics returns the answer of /metrics at an address, or the error.
func (b *chartBed) metrics(addr string) string {
	response, err := b.node.web().Get("http://" + net.JoinHostPort(addr, "9453") + "/metrics")
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
