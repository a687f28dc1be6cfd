package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"unicode"

	fleetview "github.com/node-dns/node-dns/internal/admin/fleet"
	"github.com/node-dns/node-dns/test/e2e/kube"
)

// fleetRoleFile has the rights that docs/howto/fleet.md grants.
const fleetRoleFile = product + "/contrib/fleet-role.yaml"

// viewer is a user with these rights.
var viewer = kube.User{Name: "viewer"}

// fleetBed is a control plane with nodes whose pods run node-dns.
type fleetBed struct {
	t       testing.TB
	cluster *kube.Cluster
	kubelet *execServer
}

func newFleetBed(t testing.TB) *fleetBed {
	c := newKube(t, kube.Config{})
	create(t, c, namespace(t, "kube-system"))
	for _, role := range objects(t, fleetRoleFile) {
		binding := object(t, `
apiVersion: rbac.authorization.k8s.io/v1
kind: %[1]sBinding
metadata: {name: viewer}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: %[1]s, name: %[2]s}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: %[3]s}]
`, role.GetKind(), role.GetName(), viewer.Name)
		binding.SetNamespace(role.GetNamespace())
		create(t, c, role, binding)
	}
	return &fleetBed{t: t, cluster: c, kubelet: newExecServer(t)}
}

// kubeconfig writes a kubeconfig of a user and returns its path.
func (b *fleetBed) kubeconfig(u kube.User) string {
	b.t.Helper()
	text, err := b.cluster.Kubeconfig(u)
	if err != nil {
		b.t.Fatal(err)
	}
	path := filepath.Join(b.t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		b.t.Fatal(err)
	}
	return path
}

// kubectl runs the plugin, which must end with this exit code.
func (b *fleetBed) kubectl(want int, kubeconfig string, args ...string) (stdout, stderr string) {
	b.t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(b.t.Context(), filepath.Join(os.Getenv(scratchEnv), "kubectl-node_dns"), append(args, "--kubeconfig", kubeconfig)...)
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", "TZ=UTC")
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		b.t.Fatal(err)
	}
	if got := cmd.ProcessState.ExitCode(); got != want || strings.Contains(errs.String(), "DATA RACE") {
		b.t.Fatalf("kubectl node-dns %s: exit code %d, want %d\n%s%s", strings.Join(args, " "), got, want, tail(out.String(), 8<<10), errs.String())
	}
	return out.String(), errs.String()
}

// report runs the plugin with JSON output.
func (b *fleetBed) report(want int, kubeconfig string, args ...string) fleetview.Report {
	b.t.Helper()
	out, _ := b.kubectl(want, kubeconfig, append(args, "-o", "json")...)
	var r fleetview.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		b.t.Fatalf("%v\n%s", err, out)
	}
	return r
}

// inPod runs node-dns with the root of a node's daemon, as in its pod.
func (n *node) inPod(ctx context.Context, argv []string, stdout, stderr io.Writer) int {
	cmd := exec.CommandContext(ctx, n.program(), append([]string{"--root", n.root}, argv[1:]...)...)
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")
	cmd.Stdout, cmd.Stderr = stdout, stderr
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		return 127
	}
	return cmd.ProcessState.ExitCode()
}

// lost starts a daemon whose only upstream does not listen, and waits until it is down.
func lost(t testing.TB) *node {
	n := newNode(t)
	n.args[len(n.args)-1] = fmt.Sprintf("127.0.0.1:%d", closedPort(t))
	n.start()
	n.until("the upstream is down", func() bool {
		n.ask("www.example.test.", "A")
		routes := n.status().Routes
		return len(routes) > 0 && len(routes[0].Servers) > 0 && routes[0].Servers[0].State == "down"
	})
	return n
}

// TestKubectlOneNode: with --node, and with a pod, the output is that of node-dns on this node.
func TestKubectlOneNode(t *testing.T) {
	b := newFleetBed(t)
	n := newNode(t)
	n.credentials(b.cluster, kube.Reader())
	create(t, b.cluster, grants(objects(t, manifestFile))...)
	create(t, b.cluster, namespace(t, "shop"), object(t, "{apiVersion: v1, kind: Pod, metadata: {name: web-0, namespace: shop}, spec: {nodeName: x, containers: [{name: c, image: x}]}}"))
	n.start()
	b.kubelet.run = func(ctx context.Context, _ string, argv []string, stdout, stderr io.Writer) int {
		return n.inPod(ctx, argv, stdout, stderr)
	}
	b.kubelet.addNode(t, b.cluster, kube.NodeName, "")
	n.answers(kubernetesName, "A", "NOERROR A 10.96.0.1")
	config, admin := b.kubeconfig(viewer), b.kubeconfig(kube.Admin())
	tests := []struct {
		name, kubeconfig string
		args             []string
		code             int
		want             string // regular text that the output contains
	}{
		{"status", config, []string{"status", "--node", kube.NodeName}, 0, "node-dns dev"},
		{"servers", config, []string{"servers", "--node", kube.NodeName}, 0, "DOMAIN "},
		{"query", config, []string{"query", "kubernetes.default.svc.cluster.local", "A", "--node", kube.NodeName}, 0, "IN  A  10.96.0.1"},
		{"query, not found", config, []string{"query", "nosuch.default.svc.cluster.local.", "--node", kube.NodeName}, 1, "NXDOMAIN"},
		// explain has a problem: the root has no resolv.conf that names the daemon.
		{"explain", config, []string{"explain", "kubernetes.default.svc.cluster.local", "--node", kube.NodeName}, 1, "10.96.0.1"},
		{"explain, a pod", admin, []string{"explain", "shop/web-0", "kubernetes.default"}, 1, "shop.svc.cluster.local"},
		{"all nodes", config, []string{"status"}, 0, "1 of 1 node ok\n  1: version dev on node-1\n"},
		{"all nodes, query", config, []string{"query", "kubernetes.default.svc.cluster.local.", "A", "--all"}, 0, "  1: answer A 10.96.0.1 on node-1\n"},
		{"all nodes, an invalid type", config, []string{"query", "a.example.", "BOGUS"}, 2, `BOGUS`},
		{"all nodes, explain", config, []string{"explain", "kubernetes.default.svc.cluster.local."}, 1, "queries glibc 2"},
		{"all nodes, servers", config, []string{"servers"}, 0, " for . "},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b.t = t
			if out, errs := b.kubectl(test.code, test.kubeconfig, test.args...); !strings.Contains(out, test.want) {
				t.Errorf("got %q, %q", out, errs)
			}
		})
	}
	t.Run("doctor", func(t *testing.T) {
		b.t = t
		out, _ := b.kubectl(n.inPod(t.Context(), []string{"node-dns", "doctor"}, io.Discard, io.Discard), config, "doctor", "--node", kube.NodeName)
		if !strings.Contains(out, "[ok]") {
			t.Errorf("got %q", out)
		}
	})
}

// TestKubectlFleet: 200 nodes, of which most are well, are asked a limited number at a time. The
// others are grouped by what is wrong with them.
func TestKubectlFleet(t *testing.T) {
	const well, down, parallel = 180, 12, 20
	b := newFleetBed(t)
	good, bad := newNode(t), lost(t)
	good.start()
	b.kubelet.run = func(ctx context.Context, pod string, argv []string, stdout, stderr io.Writer) int {
		if strings.HasPrefix(pod, "node-dns-rack-7-") {
			return bad.inPod(ctx, argv, stdout, stderr)
		}
		return good.inPod(ctx, argv, stdout, stderr)
	}
	for i := range well {
		b.kubelet.addNode(t, b.cluster, fmt.Sprintf("rack-1-%03d", i), ", pool: good")
	}
	for i := range down {
		b.kubelet.addNode(t, b.cluster, fmt.Sprintf("rack-7-%03d", i), "")
	}
	for i := range 3 {
		b.kubelet.addNodeAt(t, b.cluster, fmt.Sprintf("rpm-%d", i), "", b.kubelet.port, "'True'")
	}
	for i := range 2 {
		name := fmt.Sprintf("crash-%d", i)
		b.kubelet.addNodeAt(t, b.cluster, name, "", b.kubelet.port, "'True'")
		b.kubelet.addPod(t, b.cluster, name, "waiting: {reason: CrashLoopBackOff}")
	}
	b.kubelet.addNodeAt(t, b.cluster, "lost-0", "", b.kubelet.port, "Unknown")
	b.kubelet.addPod(t, b.cluster, "lost-0", "running: {}")
	closed := closedPort(t)
	for i := range 2 {
		name := fmt.Sprintf("refused-%d", i)
		b.kubelet.addNodeAt(t, b.cluster, name, "", closed, "'True'")
		b.kubelet.addPod(t, b.cluster, name, "running: {}")
	}
	windows := object(t, "{apiVersion: v1, kind: Node, metadata: {name: windows-0, labels: {kubernetes.io/os: windows}}}")
	create(t, b.cluster, windows)
	config := b.kubeconfig(viewer)

	b.kubelet.count(parallel)
	out, _ := b.kubectl(1, config, "status", "--parallel", fmt.Sprint(parallel), "--timeout", "10m")
	t.Log("\n" + out)
	if most, total := b.kubelet.counted(); most != parallel || total != well+down {
		t.Errorf("%d nodes at a time, %d in total; want %d and %d", most, total, parallel, well+down)
	}
	for _, want := range []string{
		"180 of 200 nodes ok\n",
		"! 12: 127.0.0.1:", " is down: ", " on rack-7-*\n",
		"! 3: not asked: no pod of node-dns in kube-system on rpm-0, rpm-1, rpm-2\n", "kubectl debug node/NODE",
		"! 2: not asked: the pod of node-dns is not running: CrashLoopBackOff on crash-0, crash-1\n",
		"! 1: not asked: the kubelet does not report to the API server since 2026-01-02 14:02 on lost-0\n",
		"! 2: no answer: Internal error occurred: error sending request: dial tcp NODE_IP:", ": connect: connection refused on refused-0, refused-1\n",
		"  192: version dev on rack-1-*, rack-7-*\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the output lacks %q", want)
		}
	}

	r := b.report(0, config, "servers", "-l", "pool=good", "--timeout", "10m")
	if r.Nodes != well || r.OK != well || len(r.Results) != well || len(r.Results[7].Output) == 0 || len(r.Findings) != 0 {
		t.Errorf("got %d nodes, %d ok, %d results, findings %+v", r.Nodes, r.OK, len(r.Results), r.Findings)
	}
}

// TestKubectlHostile: a node that hangs costs its timeout, and no output of a node reaches the
// terminal unescaped or takes unlimited memory.
func TestKubectlHostile(t *testing.T) {
	b := newFleetBed(t)
	const well = `{"kind": "Status", "version": "1.0.0", "problems": []}`
	b.kubelet.run = func(ctx context.Context, pod string, _ []string, stdout, stderr io.Writer) int {
		switch strings.TrimPrefix(pod, "node-dns-") {
		case "hangs":
			io.WriteString(stdout, well[:10])
			<-ctx.Done()
			return 1
		case "escapes":
			io.WriteString(stdout, `{"kind": "Status", "version": "\u001b[2J", "problems": ["\u009b2J\u202e a\nnode b is ok"]}`)
			io.WriteString(stderr, "\x1b[2J")
			return 1
		case "raw":
			io.WriteString(stdout, "\x1b[2J\x00\xff")
			io.WriteString(stderr, "\x1b]0;title\x07")
			return 77
		case "endless":
			for block := strings.Repeat("x", 64<<10); ctx.Err() == nil; {
				if _, err := io.WriteString(stdout, block); err != nil {
					break
				}
			}
			return 1
		case "deep":
			io.WriteString(stdout, strings.Repeat("[", 1<<19))
			return 0
		}
		io.WriteString(stdout, well)
		return 0
	}
	names := []string{"deep", "endless", "escapes", "hangs", "raw", "well"}
	for _, name := range names {
		b.kubelet.addNode(t, b.cluster, name, fmt.Sprintf(", ends: '%v'", name != "hangs"))
	}
	config := b.kubeconfig(viewer)
	isSafe := func(text string) {
		t.Helper()
		if strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }) {
			t.Errorf("unprintable characters: %q", text)
		}
	}
	out, _ := b.kubectl(1, config, "status", "--timeout", "10s")
	isSafe(out)
	for _, want := range []string{
		"1 of 6 nodes ok\n", "no answer within 10s on hangs\n", "the output is longer than 1 MiB on endless\n", `\u009b2J\u202e a\x0anode b is ok on escapes`,
		`exit code 77: \x1b]0;title\x07 on raw`, "exit code 0 on deep\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the output lacks %q:\n%s", want, out)
		}
	}
	text, _ := b.kubectl(1, config, "status", "-l", "ends=true", "-o", "json")
	isSafe(text)
	var r fleetview.Report
	if err := json.Unmarshal([]byte(text), &r); err != nil || len(text) > 64<<10 || r.OK != 1 {
		t.Errorf("got %d bytes, %v", len(text), err)
	}
	for _, name := range []string{"escapes", "raw", "endless"} {
		out, errs := b.kubectl(1, config, "status", "--node", name)
		isSafe(out)
		isSafe(errs)
	}
	if _, errs := b.kubectl(1, config, "status", "--timeout", "1s", "--node", "hangs"); !strings.Contains(errs, "node hangs: no answer within 1s") {
		t.Errorf("got %q", errs)
	}
}

// TestKubectlDenied: without rights, the exit code and the message say so.
func TestKubectlDenied(t *testing.T) {
	b := newFleetBed(t)
	config := b.kubeconfig(viewer)
	if _, errs := b.kubectl(1, config, "status"); !strings.Contains(errs, "the cluster has no node with Linux") {
		t.Errorf("got %q", errs)
	}
	b.kubelet.addNodeAt(t, b.cluster, "a", "", b.kubelet.port, "'True'")
	if _, errs := b.kubectl(3, config, "status"); !strings.Contains(errs, "no pod of node-dns in kube-system") {
		t.Errorf("got %q", errs)
	}
	b.kubelet.addPod(t, b.cluster, "a", "running: {}")
	if _, errs := b.kubectl(4, b.kubeconfig(kube.Nobody()), "status"); !strings.Contains(errs, `cannot list resource "nodes"`) || !strings.Contains(errs, "docs/howto/fleet.md") {
		t.Errorf("got %q", errs)
	}
	create(t, b.cluster,
		object(t, `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: lists}, rules: [{apiGroups: [""], resources: [nodes, pods], verbs: [list]}]}`),
		object(t, `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: lists}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: lists}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: nobody}]
`))
	out, _ := b.kubectl(4, b.kubeconfig(kube.Nobody()), "status")
	if !strings.Contains(out, "0 of 1 node ok\n! 1: no answer: ") || !strings.Contains(out, "ask an admin for the right to create pods/exec") {
		t.Errorf("got %q", out)
	}
	if _, errs := b.kubectl(4, b.kubeconfig(kube.Nobody()), "status", "--node", "a"); !strings.Contains(errs, "docs/howto/fleet.md") {
		t.Errorf("got %q", errs)
	}
}

// TestKubectlFallsBack: through a proxy that knows no WebSockets, the plugin uses SPDY. Without
// such a proxy it uses WebSockets.
func TestKubectlFallsBack(t *testing.T) {
	b := newFleetBed(t)
	b.kubelet.run = func(_ context.Context, _ string, _ []string, stdout, _ io.Writer) int {
		io.WriteString(stdout, `{"kind": "Status", "version": "1.0.0", "problems": []}`)
		return 0
	}
	for i := range 3 {
		b.kubelet.addNode(t, b.cluster, fmt.Sprintf("n%d", i), "")
	}
	target, err := url.Parse(b.cluster.URL())
	if err != nil {
		t.Fatal(err)
	}
	transport, err := b.cluster.Transport()
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name             string
		knows            bool
		websockets, spdy int64
	}{{"WebSockets", true, 3, 0}, {"SPDY", false, 3, 3}} {
		t.Run(test.name, func(t *testing.T) {
			b.t = t
			var websockets, spdy atomic.Int64
			proxy := &httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch strings.ToLower(r.Header.Get("Upgrade")) {
				case "websocket":
					websockets.Add(1)
					if !test.knows {
						http.Error(w, "no WebSockets", http.StatusForbidden)
						return
					}
				case "spdy/3.1":
					spdy.Add(1)
				}
				proxy.ServeHTTP(w, r)
			}))
			defer server.Close()
			path := filepath.Join(t.TempDir(), "kubeconfig")
			if err := os.WriteFile(path, []byte("{apiVersion: v1, kind: Config, clusters: [{name: c, cluster: {server: '"+server.URL+"'}}], contexts: [{name: x, context: {cluster: c}}], current-context: x}"), 0o600); err != nil {
				t.Fatal(err)
			}
			if out, _ := b.kubectl(0, path, "status"); !strings.HasPrefix(out, "3 of 3 nodes ok\n") {
				t.Errorf("got %q", out)
			}
			if w, s := websockets.Load(), spdy.Load(); w != test.websockets || s != test.spdy {
				t.Errorf("%d WebSockets and %d SPDY connections, want %d and %d", w, s, test.websockets, test.spdy)
			}
		})
	}
}
