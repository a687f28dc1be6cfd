package e2e

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/node-dns/node-dns/internal/kube/cluster"
	"github.com/node-dns/node-dns/test/e2e/kube"
)

// chartObjects returns the objects of charts/node-dns, as test/chart has rendered them, without
// those of operators, which have no API here.
func chartObjects(t testing.TB, variant string) map[string]*kube.Object {
	t.Helper()
	all := map[string]*kube.Object{}
	for _, o := range objects(t, product+"/test/chart/testdata/"+variant+".yaml") {
		switch o.GroupVersionKind().Group {
		case "monitoring.coreos.com", "security.openshift.io":
		default:
			all[o.GetKind()+"/"+o.GetName()] = o
		}
	}
	return all
}

// applyServerSide creates or changes objects as `kubectl apply --server-side` does. The API server
// refuses fields that it does not know.
func applyServerSide(t testing.TB, c *kube.Cluster, objects map[string]*kube.Object) {
	t.Helper()
	for key, o := range objects {
		if _, err := c.Client(o).Apply(t.Context(), o.GetName(), o, metav1.ApplyOptions{FieldManager: "test"}); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
	if t.Failed() {
		t.FailNow()
	}
}

// newChartCluster starts a control plane with a Linux node and a Windows node, the controller of
// DaemonSets, and the scheduler.
func newChartCluster(t testing.TB) *kube.Cluster {
	t.Helper()
	c := newKube(t, kube.Config{Controllers: []string{"daemonset-controller"}})
	linux, windows := kube.NodeObject(), kube.NodeObject()
	linux.SetLabels(map[string]string{"kubernetes.io/os": "linux"})
	windows.SetName("windows")
	windows.SetLabels(map[string]string{"kubernetes.io/os": "windows"})
	create(t, c, namespace(t, "kube-system"), linux, windows)
	startControllersAndScheduler(t, c)
	return c
}

// startControllersAndScheduler starts the controllers, and the scheduler, which binds their pods to
// nodes.
func startControllersAndScheduler(t testing.TB, c *kube.Cluster) {
	t.Helper()
	if err := errors.Join(c.StartControllers(t.Context()), c.StartScheduler(t.Context())); err != nil {
		t.Fatal(err)
	}
}

// podsOf waits until a DaemonSet has pods that are bound to nodes, and returns them.
func podsOf(t testing.TB, c *kube.Cluster, set *kube.Object) []corev1.Pod {
	t.Helper()
	pods := c.Client(object(t, "{apiVersion: v1, kind: Pod, metadata: {name: any, namespace: %s}}", set.GetNamespace()))
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		list, err := pods.List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=node-dns"})
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.Client(set).Get(t.Context(), set.GetName(), metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		all := make([]corev1.Pod, len(list.Items))
		for i, item := range list.Items {
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(item.Object, &all[i]); err != nil {
				t.Fatal(err)
			}
		}
		scheduled, _, _ := unstructured.NestedInt64(got.Object, "status", "currentNumberScheduled")
		isBound := !slices.ContainsFunc(all, func(pod corev1.Pod) bool { return pod.Spec.NodeName == "" })
		if isBound && len(all) > 0 && int64(len(all)) == scheduled {
			return all
		}
		if time.Now().After(end) {
			t.Fatalf("the pods %+v are not bound after %v, status %v", all, patience, got.Object["status"])
		}
	}
}

// TestChart: a real API server accepts the objects of the chart, the controller of DaemonSets makes
// a pod for the Linux node, and the scheduler binds it to that node. A second apply changes
// nothing. TestChartInstall runs the pod.
func TestChart(t *testing.T) {
	c := newChartCluster(t)
	all := chartObjects(t, "default")
	applyServerSide(t, c, all)
	set := all["DaemonSet/node-dns"]
	pods := podsOf(t, c, set)
	if len(pods) != 1 {
		t.Fatalf("got %d pods, want one, on the Linux node", len(pods))
	}
	checkPod(t, pods[0])

	before, err := c.Client(set).Get(t.Context(), set.GetName(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	applyServerSide(t, c, all)
	after, err := c.Client(set).Get(t.Context(), set.GetName(), metav1.GetOptions{})
	if err != nil || after.GetGeneration() != before.GetGeneration() {
		t.Errorf("a second apply changed generation %d to %d, %v", before.GetGeneration(), after.GetGeneration(), err)
	}
}

// checkPod checks the fields that the API server and the controller complete.
func checkPod(t *testing.T, pod corev1.Pod) {
	t.Helper()
	type rights struct {
		Name       string
		Restart    string // of an init container
		User       int64
		Escalation bool
		Add, Drop  []corev1.Capability
		HostPorts  []int32
	}
	type summary struct {
		HostNetwork         bool
		DNSPolicy           corev1.DNSPolicy
		Class               string
		Priority            int32
		Grace               int64
		Seccomp             corev1.SeccompProfileType
		Containers, Helpers []rights
	}
	of := func(containers []corev1.Container) (all []rights) {
		for _, c := range containers {
			s := c.SecurityContext
			r := rights{Name: c.Name, User: *s.RunAsUser, Escalation: *s.AllowPrivilegeEscalation, Add: s.Capabilities.Add, Drop: s.Capabilities.Drop}
			if c.RestartPolicy != nil {
				r.Restart = string(*c.RestartPolicy)
			}
			for _, p := range c.Ports {
				r.HostPorts = append(r.HostPorts, p.HostPort)
			}
			if !*s.ReadOnlyRootFilesystem {
				t.Errorf("the container %s may write to its image", c.Name)
			}
			all = append(all, r)
		}
		return all
	}
	spec := pod.Spec
	const systemNodeCritical = 2000001000
	want := summary{
		true, corev1.DNSDefault, "system-node-critical", systemNodeCritical, 20, corev1.SeccompProfileTypeRuntimeDefault,
		[]rights{{"node-dns", "", 65532, false, []corev1.Capability{"NET_BIND_SERVICE"}, []corev1.Capability{"ALL"}, []int32{9453}}},
		[]rights{{"intercept", "Always", 0, false, []corev1.Capability{"NET_ADMIN"}, []corev1.Capability{"ALL"}, nil}},
	}
	got := summary{
		spec.HostNetwork, spec.DNSPolicy, spec.PriorityClassName, *spec.Priority, *spec.TerminationGracePeriodSeconds,
		spec.SecurityContext.SeccompProfile.Type, of(spec.Containers), of(spec.InitContainers),
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("pod: -want +got:\n%s", d)
	}
	if spec.NodeName != kube.NodeName {
		t.Errorf("the pod is bound to %s, want %s", spec.NodeName, kube.NodeName)
	}
}

// TestChartRights: a real API server accepts the objects of the chart with any values, and the
// ServiceAccount has the rights that node-dns.yaml needs, and no others.
func TestChartRights(t *testing.T) {
	c := newKube(t, kube.Config{})
	create(t, c, namespace(t, "kube-system"), ciliumCRD(t))
	zone := []string{"list nodes", "watch nodes"}
	for _, test := range []struct {
		variant, account string
		features         cluster.Features
		missing          []string
	}{
		{"without", "node-dns", cluster.Features{}, nil},
		{"without", "node-dns", cluster.Features{NodePods: true}, []string{"list pods", "watch pods"}},
		{"default", "node-dns", cluster.Features{NodePods: true, Settings: true}, nil},
		{"default", "node-dns", cluster.Features{NodePods: true, NodeZone: true}, zone},
		{"all", "dns-agent", cluster.Features{AllPods: true, NodeZone: true}, nil},
		{"cilium", "node-dns", cluster.Features{NodePods: true, Settings: true}, nil},
		{"rke2", "node-dns", cluster.Features{NodePods: true, Settings: true}, nil},
	} {
		applyServerSide(t, c, chartObjects(t, test.variant))
		dir := t.TempDir()
		if err := c.WriteKubeconfig(dir, kube.User{Name: "system:serviceaccount:kube-system:" + test.account}); err != nil {
			t.Fatal(err)
		}
		got := missingRights(t, dir, test.features)
		if d := cmp.Diff(test.missing, got); d != "" {
			t.Errorf("values %s, %+v: missing rights: -want +got:\n%s", test.variant, test.features, d)
		}
	}
}
