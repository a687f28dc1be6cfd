package e2e

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	typed "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/node-dns/node-dns/internal/test/lab"
	"github.com/node-dns/node-dns/test/e2e/kube"
)

// kubelet simulates the kubelet of a node for pods in one namespace: it runs those that are bound
// to the node, with volumes, environment and probes, restarts containers that fail, reports the
// status, and ends deleted pods. It fails if a pod needs something that it does not know. One
// goroutine does all of this.
type kubelet struct {
	cluster *kube.Cluster
	pods    typed.PodInterface
	node    *netns
	images  map[string]string // root file systems by the image's name
	dir     string            // for all files of the pods
	resolv  string            // the node's resolv.conf
	running map[types.UID]*runningPod
	spare   []podNet // for pods without the node's network; none has a pod

	mu       sync.Mutex // guards the fields below
	started  []*container
	restarts int // of containers
}

// podNet is the network of a pod.
type podNet struct {
	*netns
	addr string
}

// runningPod is a pod with its containers, in the order of their start.
type runningPod struct {
	net        podNet
	dir        string
	mounts     map[string]string // directories of the volumes
	containers []*runningContainer
	reported   bool // that it runs
	ready      bool // as last reported
	synced     time.Time
}

type runningContainer struct {
	*container
	spec                corev1.Container
	env                 []string
	mounts              []mount
	starts              int
	ready               bool
	readiness, liveness probing
}

// probing is the state of a probe.
type probing struct {
	next   time.Time
	failed int32 // in a row
}

// startKubelet runs until the test ends. Pods without the node's network get one of nets.
func startKubelet(t testing.TB, c *kube.Cluster, node *netns, namespace, resolvConf string, images map[string]string, nets ...podNet) *kubelet {
	t.Helper()
	client, err := c.Clientset()
	if err != nil {
		t.Fatal(err)
	}
	k := &kubelet{
		cluster: c, pods: client.CoreV1().Pods(namespace), node: node, images: images,
		dir: t.TempDir(), resolv: resolvConf, running: map[types.UID]*runningPod{}, spare: nets,
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			if err := k.sync(ctx); err != nil && ctx.Err() == nil {
				t.Errorf("kubelet: %v", err)
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		for _, c := range k.started {
			c.stop(0, func() {})
			if t.Failed() {
				t.Logf("output of the container %s:\n%s", c.id, tail(c.process.Output(), 16<<10))
			}
		}
	})
	return k
}

// sync makes the containers follow the pods.
func (k *kubelet) sync(ctx context.Context) error {
	list, err := k.pods.List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + kube.NodeName})
	if err != nil {
		return err
	}
	for _, pod := range list.Items {
		have := k.running[pod.UID]
		switch {
		case pod.DeletionTimestamp != nil:
			err = k.end(ctx, pod, have)
		case have == nil:
			err = k.start(ctx, pod)
		default:
			err = k.look(ctx, pod, have)
		}
		if err != nil {
			return fmt.Errorf("pod %s: %w", pod.Name, err)
		}
	}
	return nil
}

// unlessChanged returns the error of a request for a pod, or nil if the pod is another one than in
// the last list: the next list shows what to do.
func unlessChanged(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// start starts the sidecars, and then the other containers.
func (k *kubelet) start(ctx context.Context, pod corev1.Pod) error {
	have := &runningPod{dir: filepath.Join(k.dir, string(pod.UID)), mounts: map[string]string{}, net: podNet{k.node, nodeAddr}}
	if !pod.Spec.HostNetwork {
		if len(k.spare) == 0 {
			return errors.New("no network is left for it")
		}
		have.net, k.spare = k.spare[0], k.spare[1:]
	}
	k.running[pod.UID] = have
	if err := errors.Join(k.makeVolumes(ctx, pod, have), k.updateVolumes(ctx, pod, have)); err != nil {
		return err
	}
	for _, spec := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		c := &runningContainer{spec: spec, mounts: []mount{{k.resolv, "/etc/resolv.conf", true}}}
		for _, m := range spec.VolumeMounts {
			c.mounts = append(c.mounts, mount{have.mounts[m.Name], m.MountPath, m.ReadOnly})
		}
		var err error
		if c.env, err = envOf(k.cluster, spec); err != nil {
			return err
		}
		have.containers = append(have.containers, c)
		if err := k.run(have, c); err != nil {
			return err
		}
	}
	return nil
}

func (k *kubelet) run(pod *runningPod, c *runningContainer) error {
	root := k.images[c.spec.Image]
	if root == "" {
		return fmt.Errorf("no image %s", c.spec.Image)
	}
	c.starts++
	c.ready, c.readiness, c.liveness = c.spec.ReadinessProbe == nil, probing{}, after(c.spec.LivenessProbe)
	var err error
	c.container, err = startContainer(pod.net.netns, pod.dir, fmt.Sprintf("%s-%d", c.spec.Name, c.starts), root, c.spec, c.env, c.mounts)
	if err == nil {
		k.mu.Lock()
		k.started = append(k.started, c.container)
		k.restarts += min(c.starts-1, 1)
		k.mu.Unlock()
	}
	return err
}

// after returns the state of a probe that begins after its period.
func after(p *corev1.Probe) probing {
	if p == nil {
		return probing{}
	}
	return probing{next: time.Now().Add(time.Duration(p.PeriodSeconds) * time.Second)}
}

// makeVolumes makes the directories of the volumes, and writes the files that do not change while
// the test runs.
func (k *kubelet) makeVolumes(ctx context.Context, pod corev1.Pod, have *runningPod) error {
	for _, v := range pod.Spec.Volumes {
		dir := filepath.Join(have.dir, "volumes", v.Name)
		have.mounts[v.Name] = dir
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		switch {
		case v.ConfigMap != nil: // updateVolumes
		case v.EmptyDir != nil:
			if err := os.Chmod(dir, 0o777); err != nil {
				return err
			}
		case v.Projected != nil: // a token and the cluster's CA
			if err := k.cluster.WriteServiceAccount(ctx, dir, pod.Namespace, pod.Spec.ServiceAccountName); err != nil {
				return err
			}
			for _, s := range v.Projected.Sources {
				var name string
				switch {
				case s.ServiceAccountToken != nil:
					name = s.ServiceAccountToken.Path
				case s.ConfigMap != nil && s.ConfigMap.Name == "kube-root-ca.crt":
					name = s.ConfigMap.Items[0].Path
				default:
					return fmt.Errorf("this test does not know how the kubelet projects %v", s)
				}
				// The containers run as different users.
				if err := os.Chmod(filepath.Join(dir, name), 0o644); err != nil {
					return err
				}
			}
		default:
			return fmt.Errorf("this test does not know how the kubelet makes the volume %s", v.Name)
		}
	}
	return nil
}

// updateVolumes writes the files of ConfigMaps.
func (k *kubelet) updateVolumes(ctx context.Context, pod corev1.Pod, have *runningPod) error {
	have.synced = time.Now()
	for _, v := range pod.Spec.Volumes {
		if v.ConfigMap == nil {
			continue
		}
		var o kube.Object
		o.SetAPIVersion("v1")
		o.SetKind("ConfigMap")
		o.SetNamespace(pod.Namespace)
		got, err := k.cluster.Client(&o).Get(ctx, v.ConfigMap.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) && len(have.containers) > 0 {
			continue // it was deleted before the pod
		}
		if err != nil {
			return err
		}
		if err := publish(have.mounts[v.Name], got.GetResourceVersion(), got.Object["data"].(map[string]any)); err != nil {
			return err
		}
	}
	return nil
}

// publish replaces the files of a directory as the kubelet's AtomicWriter does: they are links
// through ..data, which is renamed.
func publish(dir, version string, files map[string]any) error {
	data, current := filepath.Join(dir, "..data"), "..version-"+version
	if now, err := os.Readlink(data); err == nil && now == current {
		return nil
	}
	if err := os.MkdirAll(filepath.Join(dir, current), 0o755); err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, current, name), []byte(text.(string)), 0o644); err != nil {
			return err
		}
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	if err := os.Symlink(current, data+"_tmp"); err != nil {
		return err
	}
	return os.Rename(data+"_tmp", data)
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

// look updates the files of volumes once a second, probes the containers, restarts those that ended
// or fail their liveness probe, and reports changes.
func (k *kubelet) look(ctx context.Context, pod corev1.Pod, have *runningPod) error {
	if time.Since(have.synced) > time.Second {
		if err := k.updateVolumes(ctx, pod, have); err != nil {
			return err
		}
	}
	for _, c := range have.containers {
		if c.process.Running() && k.due(ctx, have, c, c.spec.LivenessProbe, &c.liveness) && c.liveness.failed >= c.spec.LivenessProbe.FailureThreshold {
			c.stop(graceOf(pod, c.spec.LivenessProbe), func() {})
		}
		if !c.process.Running() {
			if err := k.run(have, c); err != nil {
				return err
			}
		}
	}
	return k.lookReady(ctx, pod, have)
}

// lookReady runs the readiness probes, even those of a pod that is being deleted, and reports a
// change.
func (k *kubelet) lookReady(ctx context.Context, pod corev1.Pod, have *runningPod) error {
	ready := true
	for _, c := range have.containers {
		if k.due(ctx, have, c, c.spec.ReadinessProbe, &c.readiness) {
			c.ready = c.readiness.failed < c.spec.ReadinessProbe.FailureThreshold && (c.ready || c.readiness.failed == 0)
		}
		ready = ready && c.ready
	}
	if have.reported && have.ready == ready {
		return nil
	}
	have.ready = ready
	return k.report(ctx, pod, have)
}

// due runs a probe if its period is over. It reports whether it did.
func (k *kubelet) due(ctx context.Context, pod *runningPod, c *runningContainer, p *corev1.Probe, state *probing) bool {
	if p == nil || time.Now().Before(state.next) {
		return false
	}
	state.next = time.Now().Add(time.Duration(p.PeriodSeconds) * time.Second)
	ctx, cancel := context.WithTimeout(ctx, time.Duration(p.TimeoutSeconds)*time.Second)
	defer cancel()
	if state.failed++; k.probe(ctx, pod, c, p) == nil {
		state.failed = 0
	}
	return true
}

func (k *kubelet) probe(ctx context.Context, pod *runningPod, c *runningContainer, p *corev1.Probe) error {
	switch {
	case p.Exec != nil:
		return c.exec(ctx, p.Exec.Command...)
	case p.HTTPGet == nil:
		return fmt.Errorf("this test does not know the probe %v", p)
	}
	at := net.JoinHostPort(cmp.Or(p.HTTPGet.Host, pod.net.addr), p.HTTPGet.Port.String())
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+at+p.HTTPGet.Path, nil)
	if err != nil {
		return err
	}
	response, err := k.node.web().Do(request)
	if err != nil {
		return err
	}
	response.Body.Close()
	if response.StatusCode >= http.StatusBadRequest {
		return errors.New(response.Status)
	}
	return nil
}

// report sends the pod's status.
func (k *kubelet) report(ctx context.Context, pod corev1.Pod, have *runningPod) error {
	condition := func(kind corev1.PodConditionType, is bool) corev1.PodCondition {
		status := corev1.ConditionFalse
		if is {
			status = corev1.ConditionTrue
		}
		return corev1.PodCondition{Type: kind, Status: status, LastTransitionTime: metav1.Now()}
	}
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, HostIP: nodeAddr, PodIP: have.net.addr, PodIPs: []corev1.PodIP{{IP: have.net.addr}},
		Conditions: []corev1.PodCondition{
			condition(corev1.PodScheduled, true), condition(corev1.PodInitialized, true),
			condition(corev1.ContainersReady, have.ready), condition(corev1.PodReady, have.ready),
		},
	}
	_, err := k.pods.UpdateStatus(ctx, &pod, metav1.UpdateOptions{})
	have.reported = err == nil
	return unlessChanged(err)
}

// end stops the containers, and then the sidecars, and removes the pod from the API.
func (k *kubelet) end(ctx context.Context, pod corev1.Pod, have *runningPod) error {
	delete(k.running, pod.UID)
	if have != nil {
		till := time.Now().Add(graceOf(pod, nil))
		var err error
		for _, c := range slices.Backward(have.containers) {
			c.stop(time.Until(till), func() {
				pod.ResourceVersion = "" // the pod is the same: it is only gone when this returns
				err = errors.Join(err, k.lookReady(ctx, pod, have))
			})
		}
		if err != nil {
			return err
		}
		if have.net.netns != k.node {
			k.spare = append(k.spare, have.net)
		}
	}
	gone := metav1.DeleteOptions{GracePeriodSeconds: new(int64), Preconditions: metav1.NewUIDPreconditions(string(pod.UID))}
	return unlessChanged(k.pods.Delete(ctx, pod.Name, gone))
}

// graceOf returns the time between SIGTERM and SIGKILL; a probe may shorten it.
func graceOf(pod corev1.Pod, p *corev1.Probe) time.Duration {
	seconds := *pod.Spec.TerminationGracePeriodSeconds
	if p != nil && p.TerminationGracePeriodSeconds != nil {
		seconds = *p.TerminationGracePeriodSeconds
	}
	return time.Duration(seconds) * time.Second
}

// kill sends SIGKILL to the running containers with these names, and returns when they have ended.
// The kubelet restarts them.
func (k *kubelet) kill(names ...string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	var killed []*container
	for _, name := range names {
		i := slices.IndexFunc(k.started, func(c *container) bool { return c.process.Running() && strings.HasPrefix(c.id, name+"-") })
		if i < 0 {
			return fmt.Errorf("no container %s runs", name)
		}
		c := k.started[i]
		// The PID namespace ends with the container. That may end this crun before it returns.
		if err := c.beside(context.Background(), "kill", c.id, "KILL"); err != nil && !lab.Poll(time.Second, func() bool { return !c.process.Running() }) {
			return err
		}
		killed = append(killed, c)
	}
	for _, c := range killed {
		if !lab.Poll(patience, func() bool { return !c.process.Running() }) {
			return fmt.Errorf("the container %s still runs", c.id)
		}
	}
	return nil
}

// troubles returns how often containers were restarted, and the lines of their logs that report a
// problem.
func (k *kubelet) troubles() (restarts int, lines []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range k.started {
		for line := range strings.Lines(c.process.Output()) {
			if strings.Contains(line, "msg=problem ") || strings.Contains(line, "level=ERROR") {
				lines = append(lines, c.id+": "+line)
			}
		}
	}
	return k.restarts, lines
}

// readyPods returns the images of the ready pods in the API.
func (k *kubelet) readyPods(ctx context.Context) (images []string, all int, err error) {
	list, err := k.pods.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, 0, err
	}
	for _, pod := range list.Items {
		if slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue }) {
			images = append(images, pod.Spec.Containers[0].Image)
		}
	}
	return images, len(list.Items), nil
}

// podNames returns the names of the pods in the API.
func (k *kubelet) podNames() (names []string) {
	list, err := k.pods.List(k.node.t.Context(), metav1.ListOptions{})
	if err != nil {
		k.node.t.Fatal(err)
	}
	for _, pod := range list.Items {
		names = append(names, pod.Name)
	}
	return names
}
