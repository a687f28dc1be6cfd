package e2e

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/node-dns/node-dns/internal/test/lab"
	"github.com/node-dns/node-dns/test/e2e/kube"
)

// kubelet is a real kubelet, with containerd, crun and CNI plugins, on the node of a proxyBed. See
// testdata/kubelet/start for what they lack: control groups, and so the limits of containers.
type kubelet struct {
	node    *netns
	client  *kubernetes.Clientset
	process *lab.Process

	mu   sync.Mutex
	logs map[string]*os.File // of containers, by path
}

// buildImages writes the images of node-dns and of a pod's sandbox to dir, as localhost/node-dns
// with the tags 0 and pause.
func buildImages(t testing.TB, dir string) {
	t.Helper()
	const script = `
DIST=$dir VERSION=0 REVISION=test ./packaging/image/build "$(uname -m)"
go build -C packaging -o "$work/" ./image
arch=$(go env GOARCH)
go build -C test/e2e -ldflags '-s -w' -o "$work/programs/$arch/usr/sbin/node-dns" ./testdata/pause
mkdir "$work/files"
"$work/image" -version pause -license none -sysusers packaging/node-dns.sysusers -files "$work/files" \
	-programs "$work/programs" "$arch" >"$dir/pause.tar"
`
	build := exec.Command("sh", "-euc", script)
	build.Dir, build.Env = product, append(os.Environ(), "dir="+dir, "work="+t.TempDir(), "CGO_ENABLED=0", "SOURCE_DATE_EPOCH=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the images: %v\n%s", err, out)
	}
}

// startKubelet runs until the test ends. containerd knows the image of node-dns as test:old and
// test:new.
func startKubelet(t testing.TB, c *kube.Cluster, node *netns, resolvConf string) *kubelet {
	t.Helper()
	client, err := c.Clientset()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	buildImages(t, dir)
	if err := c.WriteKubeconfig(dir, kube.Node()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "resolv.conf"), []byte(resolvConf), 0o644); err != nil {
		t.Fatal(err)
	}
	script, err := filepath.Abs("testdata/kubelet/start")
	if err != nil {
		t.Fatal(err)
	}
	k := &kubelet{node: node, client: client, logs: map[string]*os.File{}}
	k.process = node.start(
		"unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", script, dir,
		filepath.Join(programs(t), "kubelet"), "--kubeconfig=/run/test/"+kube.KubeconfigFile, "--hostname-override="+kube.NodeName, "--node-ip="+nodeAddr,
	)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		k.keepLogs(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		k.process.Kill()
		for path, file := range k.logs {
			if t.Failed() {
				t.Logf("log of the container %s:\n%s", path, tail(contentOf(file), 16<<10))
			}
			file.Close()
		}
	})
	return k
}

// path returns a path in the mount namespace of the kubelet.
func (k *kubelet) path(name string) string {
	return fmt.Sprintf("/proc/%d/root%s", k.process.PID(), name)
}

// keepLogs opens the logs of all containers. The kubelet removes them with the pods.
func (k *kubelet) keepLogs(ctx context.Context) {
	for ; ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
		paths, _ := filepath.Glob(k.path("/var/log/pods/*/*/*.log"))
		for _, path := range paths {
			if k.logs[path] != nil {
				continue
			}
			if file, err := os.Open(path); err == nil { // or it was removed
				k.mu.Lock()
				k.logs[path] = file
				k.mu.Unlock()
			}
		}
	}
}

func contentOf(file *os.File) string {
	data, err := io.ReadAll(io.NewSectionReader(file, 0, math.MaxInt64))
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// troubles returns the lines of the logs that report a problem.
func (k *kubelet) troubles() (lines []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for path, file := range k.logs {
		for line := range strings.Lines(contentOf(file)) {
			if strings.Contains(line, "msg=problem ") || strings.Contains(line, "level=ERROR") {
				lines = append(lines, path+": "+line)
			}
		}
	}
	return lines
}

// list returns the pods of a namespace in the API.
func (k *kubelet) list(namespace string) []corev1.Pod {
	k.node.t.Helper()
	list, err := k.client.CoreV1().Pods(namespace).List(k.node.t.Context(), metav1.ListOptions{})
	if err != nil {
		k.node.t.Fatal(err)
	}
	return list.Items
}

func isReady(pod corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// podNames returns the names of the chart's pods.
func (k *kubelet) podNames() (names []string) {
	k.node.t.Helper()
	for _, pod := range k.list("kube-system") {
		names = append(names, pod.Name)
	}
	return names
}

// containersOf returns the status of all containers of a pod.
func containersOf(pod corev1.Pod) []corev1.ContainerStatus {
	return slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
}

// restarts returns how often the containers of the chart's pods were restarted.
func (k *kubelet) restarts() (n int) {
	k.node.t.Helper()
	for _, pod := range k.list("kube-system") {
		for _, c := range containersOf(pod) {
			n += int(c.RestartCount)
		}
	}
	return n
}

// kill sends SIGKILL to the chart's containers with these names, and returns when they have ended.
// The kubelet restarts them.
func (k *kubelet) kill(names ...string) {
	t := k.node.t
	t.Helper()
	var processes []string
	for _, name := range names {
		var id string
		for _, pod := range k.list("kube-system") {
			for _, c := range containersOf(pod) {
				if c.Name == name && c.State.Running != nil {
					id = strings.TrimPrefix(c.ContainerID, "containerd://")
				}
			}
		}
		pid, err := os.ReadFile(k.path("/run/containerd/io.containerd.runtime.v2.task/k8s.io/" + id + "/init.pid"))
		if err != nil {
			t.Fatalf("the container %s does not run: %v", name, err)
		}
		processes = append(processes, k.path("/proc/"+string(pid)))
		if out, err := k.beside("ctr", "--namespace=k8s.io", "tasks", "kill", "--signal=SIGKILL", id); err != nil {
			t.Fatalf("killing the container %s: %v\n%s", name, err, out)
		}
	}
	for _, process := range processes {
		if !lab.Poll(patience, func() bool { _, err := os.Stat(process); return err != nil }) {
			t.Fatalf("%s still runs", process)
		}
	}
}

// beside runs a program with the files of the kubelet.
func (k *kubelet) beside(argv ...string) (string, error) {
	return k.node.try(append([]string{"nsenter", "--mount", fmt.Sprintf("--target=%d", k.process.PID()), "--"}, argv...)...)
}

// netOf waits until the only pod of a namespace is ready, and returns its network. It must be the
// first pod with one of its own.
func (k *kubelet) netOf(namespace string) *netns {
	t := k.node.t
	t.Helper()
	var pods []corev1.Pod
	if !lab.Poll(patience, func() bool {
		pods = k.list(namespace)
		return len(pods) == 1 && isReady(pods[0])
	}) {
		t.Fatalf("after %v the pods are %+v, want one that is ready", patience, pods)
	}
	networks, err := filepath.Glob(k.path("/run/netns/cni-*"))
	if err != nil || len(networks) != 1 {
		t.Fatalf("the pods have the networks %q, %v, want one", networks, err)
	}
	file, err := os.Open(networks[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return &netns{t: t, name: pods[0].Name, file: file}
}
