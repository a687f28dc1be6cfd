package e2e

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	"k8s.io/klog/v2"
	"k8s.io/utils/exec"

	"github.com/node-dns/node-dns/test/e2e/kube"
)

// execServer simulates the kubelets of all nodes for exec, with the streaming server of the
// container runtimes. The API server connects to it as to a real one.
type execServer struct {
	port int
	// run runs a program in a pod and returns its exit code. It is called concurrently.
	run func(ctx context.Context, pod string, argv []string, stdout, stderr io.Writer) int

	mu           sync.Mutex // guards the fields below
	active, most int        // programs that run now, and their maximum
	total        int
	await        int           // number of programs that wait for each other; 0: none
	together     chan struct{} // closed when that many run
}

// kubeletHost is the address of all nodes: loopback, but not that of the tests' nameservers.
const kubeletHost = "127.0.0.2"

// newExecServer starts an execServer, which ends with the test.
func newExecServer(t testing.TB) *execServer {
	klog.SetSlogLogger(slog.New(slog.DiscardHandler)) // the streaming server logs each client that leaves
	k := &execServer{}
	ctx, cancel := context.WithCancel(context.Background())
	mux := http.NewServeMux()
	mux.HandleFunc("/exec/{namespace}/{pod}/{container}", func(w http.ResponseWriter, r *http.Request) {
		if r.PathValue("namespace") != "kube-system" || r.PathValue("container") != "node-dns" {
			t.Errorf("exec in %s", r.URL.Path)
		}
		options, err := remotecommand.NewOptions(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		remotecommand.ServeExec(w, r.WithContext(ctx), k, r.PathValue("pod"), "", "", r.URL.Query()["command"], options,
			time.Hour, patience, remotecommand.SupportedStreamingProtocols)
	})
	listener, err := net.Listen("tcp4", kubeletHost+":0")
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(mux)
	server.Listener.Close()
	server.Listener = listener
	server.StartTLS()
	t.Cleanup(func() {
		cancel()
		server.CloseClientConnections()
		server.Close()
	})
	k.port = listener.Addr().(*net.TCPAddr).Port
	return k
}

// count resets the counters. If await is set, programs wait until that many of them run.
func (k *execServer) count(await int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.active, k.most, k.total, k.await, k.together = 0, 0, 0, await, make(chan struct{})
}

// ExecInContainer implements remotecommand.Executor.
func (k *execServer) ExecInContainer(ctx context.Context, name, _, _ string, argv []string, _ io.Reader, out, err io.WriteCloser, _ bool, _ <-chan remotecommand.TerminalSize, _ time.Duration) error {
	together := k.begin()
	defer k.end()
	if together != nil {
		select {
		case <-together:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if code := k.run(ctx, name, argv, out, err); code != 0 {
		return exec.CodeExitError{Err: fmt.Errorf("exit code %d", code), Code: code}
	}
	return nil
}

func (k *execServer) begin() <-chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.active, k.total = k.active+1, k.total+1
	k.most = max(k.most, k.active)
	switch {
	case k.total > k.await:
		return nil
	case k.total == k.await:
		close(k.together)
	}
	return k.together
}

func (k *execServer) end() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.active--
}

func (k *execServer) counted() (most, total int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.most, k.total
}

// addNode creates a node of the kubelet, and a pod of node-dns on it. labels are in YAML.
func (k *execServer) addNode(t testing.TB, c *kube.Cluster, name, labels string) {
	t.Helper()
	k.addNodeAt(t, c, name, labels, k.port, "'True'")
	k.addPod(t, c, name, "running: {}")
}

func (k *execServer) addNodeAt(t testing.TB, c *kube.Cluster, name, labels string, port int, ready string) {
	t.Helper()
	create(t, c, object(t, `
apiVersion: v1
kind: Node
metadata: {name: %s, labels: {kubernetes.io/os: linux%s}}
status:
  addresses: [{type: InternalIP, address: %s}]
  daemonEndpoints: {kubeletEndpoint: {Port: %d}}
  conditions: [{type: Ready, status: %s, lastHeartbeatTime: "2026-01-02T14:02:00Z", lastTransitionTime: "2026-01-02T14:03:00Z"}]
`, name, labels, kubeletHost, port, ready))
}

// addPod creates the pod of node-dns on a node, with the state of its container in YAML.
func (k *execServer) addPod(t testing.TB, c *kube.Cluster, node, state string) {
	t.Helper()
	pod := object(t, `
apiVersion: v1
kind: Pod
metadata: {name: node-dns-%[1]s, namespace: kube-system, labels: {app.kubernetes.io/name: node-dns}}
spec: {nodeName: %[1]s, containers: [{name: node-dns, image: x}]}
`, node)
	status := object(t, `
apiVersion: v1
kind: Pod
status: {phase: Running, containerStatuses: [{name: node-dns, image: x, imageID: x, ready: true, restartCount: 0, state: {%s}}]}
`, state)
	if _, err := c.Client(pod).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil { // Apply would bind it to another node
		t.Fatal(err)
	}
	if err := c.PatchStatus(t.Context(), pod, status.Object["status"]); err != nil {
		t.Fatal(err)
	}
}

// closedPort returns a port where nothing listens.
func closedPort(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
