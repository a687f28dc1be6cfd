package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/test/e2e/kube"
)

// canaryNodes is the number of nodes in TestCanary.
const canaryNodes = 3

// configAnnotation is the annotation of the chart's pods that has node-dns.yaml, with rollConfig.
const configAnnotation = "node-dns/config"

// kubelets stand in for the kubelets of all nodes for the pods of a DaemonSet: for each pod they
// run the daemon with the pod's configuration, and report its /ready as the pod's readiness.
type kubelets struct {
	t       *testing.T
	c       *kube.Cluster
	set     *kube.Object
	site    string                 // the nodes' own nameserver, as ADDRESS#PORT
	running map[types.UID]*podNode // by pod
	age     time.Duration          // how long new pods have been ready when they are
}

// podNode is the daemon of one pod.
type podNode struct {
	*node
	metrics  string // address
	since    time.Time
	isReady  bool
	failures int // of the probe, in a row
}

// probeFailures is the default failureThreshold of a probe.
const probeFailures = 3

func (k *kubelets) pods() (all []corev1.Pod) {
	k.t.Helper()
	list, err := k.c.Client(podIn(k.t, k.set)).List(k.t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=node-dns"})
	if err != nil {
		k.t.Fatal(err)
	}
	for _, item := range list.Items {
		var pod corev1.Pod
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(item.Object, &pod); err != nil {
			k.t.Fatal(err)
		}
		all = append(all, pod)
	}
	return all
}

func podIn(t testing.TB, set *kube.Object) *kube.Object {
	return object(t, "{apiVersion: v1, kind: Pod, metadata: {name: any, namespace: %s}}", set.GetNamespace())
}

// work does what the kubelets have to do now.
func (k *kubelets) work() {
	k.t.Helper()
	for _, pod := range k.pods() {
		o := podIn(k.t, k.set)
		o.SetName(pod.Name)
		p := k.running[pod.UID]
		switch {
		case pod.DeletionTimestamp != nil:
			if p != nil {
				p.stop()
				delete(k.running, pod.UID)
			}
			remove(k.t, k.c, o)
			continue
		case pod.Spec.NodeName == "": // the scheduler has not bound it yet
			continue
		case p == nil:
			p = k.run(pod)
			k.running[pod.UID] = p
		}
		isReady, _ := p.ready()
		if p.failures++; isReady {
			p.failures = 0
		}
		if isReady = isReady || p.isReady && p.failures < probeFailures; p.since.IsZero() || isReady != p.isReady {
			p.isReady, p.since = isReady, time.Now().Add(-k.age)
			if err := k.c.PatchStatus(k.t.Context(), o, p.status()); err != nil {
				k.t.Fatal(err)
			}
		}
	}
}

// run starts the daemon of a pod. All nodes of the test have one network, so each daemon serves its
// metrics on a port of its own.
func (k *kubelets) run(pod corev1.Pod) *podNode {
	k.t.Helper()
	p := &podNode{node: newNode(k.t), metrics: dnstest.FreePort(k.t).String()}
	config := strings.ReplaceAll(pod.Annotations[configAnnotation], "127.0.0.1:9453", p.metrics)
	p.write("/etc/node-dns/node-dns.yaml", config)
	p.write("/etc/dnsmasq.d/origin-upstream-dns.conf", "server="+k.site+"\n")
	account := p.path("/var/run/secrets/kubernetes.io/serviceaccount")
	if err := os.MkdirAll(account, 0o755); err != nil {
		k.t.Fatal(err)
	}
	if err := k.c.WriteServiceAccount(k.t.Context(), account, pod.Namespace, pod.Spec.ServiceAccountName); err != nil {
		k.t.Fatal(err)
	}
	p.args = []string{"--root", p.root, "serve", "--listen", "127.0.0.1:0"}
	var err error
	if p.env, err = envOf(k.c, pod.Spec.Containers[0]); err != nil {
		k.t.Fatal(err)
	}
	p.start()
	return p
}

// envOf returns the environment that the kubelet gives a container on the Linux node.
func envOf(c *kube.Cluster, spec corev1.Container) ([]string, error) {
	api, err := url.Parse(c.URL())
	if err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(api.Host)
	if err != nil {
		return nil, err
	}
	env := []string{"KUBERNETES_SERVICE_HOST=" + host, "KUBERNETES_SERVICE_PORT_HTTPS=" + port}
	for _, v := range spec.Env {
		if v.ValueFrom == nil || v.ValueFrom.FieldRef == nil || v.ValueFrom.FieldRef.FieldPath != "spec.nodeName" {
			return nil, fmt.Errorf("this test does not know how the kubelet sets %s", v.Name)
		}
		env = append(env, v.Name+"="+kube.NodeName)
	}
	return env, nil
}

// ready returns what the readiness probe finds.
func (p *podNode) ready() (isReady bool, why string) {
	client := http.Client{Timeout: 2 * time.Second}
	response, err := client.Get("http://" + p.metrics + "/ready")
	if err != nil {
		return false, err.Error()
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return false, err.Error()
	}
	return response.StatusCode == http.StatusOK, string(body)
}

func (p *podNode) status() map[string]any {
	ready := "False"
	if p.isReady {
		ready = "True"
	}
	at := p.since.UTC().Format(time.RFC3339)
	return map[string]any{"phase": "Running", "conditions": []any{
		map[string]any{"type": "Ready", "status": ready, "lastTransitionTime": at},
		map[string]any{"type": "ContainersReady", "status": ready, "lastTransitionTime": at},
	}}
}

// rollout is the status of a DaemonSet.
type rollout struct{ updated, available, unavailable int64 }

func (k *kubelets) rollout() rollout {
	k.t.Helper()
	got, err := k.c.Client(k.set).Get(k.t.Context(), k.set.GetName(), metav1.GetOptions{})
	if err != nil {
		k.t.Fatal(err)
	}
	if seen, _, _ := unstructured.NestedInt64(got.Object, "status", "observedGeneration"); seen != got.GetGeneration() {
		return rollout{}
	}
	number := func(name string) int64 {
		n, _, _ := unstructured.NestedInt64(got.Object, "status", name)
		return n
	}
	return rollout{number("updatedNumberScheduled"), number("numberAvailable"), number("numberUnavailable")}
}

// until lets the kubelets work until the rollout has the wanted status.
func (k *kubelets) until(want rollout, and func() bool) {
	k.t.Helper()
	for end := time.Now().Add(2 * patience); ; time.Sleep(100 * time.Millisecond) {
		k.work()
		got := k.rollout()
		if got == want && and() {
			return
		}
		if time.Now().After(end) {
			for _, pod := range k.pods() {
				k.t.Logf("pod %s of node %q: %+v", pod.Name, pod.Spec.NodeName, pod.Status.Conditions)
			}
			k.t.Fatalf("the rollout is %+v, want %+v", got, want)
		}
	}
}

// upgrade changes the configuration as `helm upgrade` does.
func (k *kubelets) upgrade(config string) {
	k.t.Helper()
	set := k.set.DeepCopy()
	if err := unstructured.SetNestedField(set.Object, config, "spec", "template", "metadata", "annotations", configAnnotation); err != nil {
		k.t.Fatal(err)
	}
	applyServerSide(k.t, k.c, map[string]*kube.Object{"DaemonSet": set})
}

// failing counts the pods that are not ready because of their nameservers.
func (k *kubelets) failing() (n int) {
	for _, p := range k.running {
		if isReady, why := p.ready(); !isReady && strings.Contains(why, "do not answer through node-dns") {
			n++
		}
	}
	return n
}

// TestCanary: the rollout of a configuration that makes names fail stops at the first node, with a
// real API server, DaemonSet controller and scheduler: all names, and those of one route. The other
// nodes keep their pods. After the configuration is restored, the rollout continues without help.
func TestCanary(t *testing.T) {
	t.Parallel()
	c := newChartCluster(t)
	for i := 2; i <= canaryNodes; i++ {
		another := kube.NodeObject()
		another.SetName(fmt.Sprint("node-", i))
		another.SetLabels(map[string]string{"kubernetes.io/os": "linux"})
		create(t, c, another)
	}
	all := chartObjects(t, "canary")
	k := &kubelets{t: t, c: c, set: all["DaemonSet/node-dns"], running: map[types.UID]*podNode{}}
	k.site = strings.Replace(internet(t).String(), ":", "#", 1)
	good, _, _ := unstructured.NestedString(k.set.Object, "spec", "template", "metadata", "annotations", configAnnotation)
	minReady, _, _ := unstructured.NestedInt64(k.set.Object, "spec", "minReadySeconds")
	k.age = 2 * time.Duration(minReady) * time.Second // nothing to wait for
	applyServerSide(t, c, all)
	k.until(rollout{updated: canaryNodes, available: canaryNodes}, func() bool { return true })

	k.age = 0
	dead := dnstest.FreePort(t)
	k.upgrade(good + "upstreams: ['" + dead.String() + "']\n")
	stopped := rollout{updated: 1, available: canaryNodes - 1, unavailable: 1}
	k.until(stopped, func() bool { return k.failing() == 1 })
	// The controller looks again when minReadySeconds of the new pod are over.
	for end := time.Now().Add(time.Duration(minReady) * time.Second); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		k.work()
		if got := k.rollout(); got != stopped {
			t.Fatalf("the rollout went on: %+v", got)
		}
	}

	restore := func() {
		k.age = 2 * time.Duration(minReady) * time.Second
		k.upgrade(good)
		k.until(rollout{updated: canaryNodes, available: canaryNodes}, func() bool { return k.failing() == 0 })
	}
	restore()

	k.age = 0
	k.upgrade(good + "routes: [{domain: example.test, servers: ['" + dead.String() + "']}]\n") // the nodes' nameserver knows it
	k.until(stopped, func() bool { return k.failing() == 1 })
	restore()
}
