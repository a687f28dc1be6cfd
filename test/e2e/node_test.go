package e2e

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/test/conformance"
	"github.com/node-dns/node-dns/internal/test/dnstest"
	"github.com/node-dns/node-dns/internal/test/lab"
	"github.com/node-dns/node-dns/test/e2e/kube"
)

// patience bounds the wait for the daemon to see a change in the API. Normally it takes
// milliseconds, or the pause before the next connection attempt.
const patience = time.Minute

// node is a root directory with `node-dns serve`.
type node struct {
	t       testing.TB
	root    string
	addr    netip.AddrPort // listen address
	process *lab.Process
	args    []string
	env     []string // besides the usual variables
}

// newNode creates a node's root. Nothing is started yet.
func newNode(t testing.TB, settings ...string) *node {
	t.Helper()
	root, err := os.MkdirTemp(os.Getenv(scratchEnv), "node-") // short, because a socket path has at most 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	n := &node{t: t, root: root}
	n.write("/etc/node-dns/node-dns.yaml", strings.Join(append([]string{
		"nodeName: " + kube.NodeName,
	}, settings...), "\n")+"\n")
	n.args = []string{"--root", root, "serve", "--listen", "127.0.0.1:0", "--upstream", internet(t).String()}
	return n
}

// internet starts a nameserver for names outside the cluster, until the test ends.
func internet(t testing.TB) netip.AddrPort {
	t.Helper()
	handler, err := conformance.Internet(casesDir)
	if err != nil {
		t.Fatal(err)
	}
	server := dnsserver.New(dnsserver.Config{Handler: handler})
	if err := server.Listen([]netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := server.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
	return server.Listeners()[0].Addr
}

func (n *node) program() string { return filepath.Join(os.Getenv(scratchEnv), "node-dns") }

func (n *node) path(name string) string { return filepath.Join(n.root, name) }

func (n *node) write(name, text string) {
	n.t.Helper()
	if err := os.MkdirAll(filepath.Dir(n.path(name)), 0o755); err != nil {
		n.t.Fatal(err)
	}
	if err := os.WriteFile(n.path(name), []byte(text), 0o600); err != nil {
		n.t.Fatal(err)
	}
}

// kubeconfigPath is the daemon's default kubeconfig.
const kubeconfigPath = "/etc/node-dns/kubeconfig"

// credentials writes a kubeconfig of a user for the node.
func (n *node) credentials(c *kube.Cluster, u kube.User) {
	n.t.Helper()
	kubeconfig, err := c.Kubeconfig(u)
	if err != nil {
		n.t.Fatal(err)
	}
	n.write(kubeconfigPath, string(kubeconfig))
}

// joinOpenShift gives the node the files of an OpenShift 3 node: a node-config.yaml that names the
// kubeconfig in its directory.
func (n *node) joinOpenShift(c *kube.Cluster, u kube.User, lines ...string) {
	n.t.Helper()
	n.credentials(c, u)
	n.write("/etc/origin/node/node-config.yaml", `apiVersion: v1
kind: NodeConfig
nodeName: `+kube.NodeName+`
dnsDomain: cluster.local
masterKubeConfig: node.kubeconfig
`+strings.Join(lines, "\n"))
	if err := os.Rename(n.path(kubeconfigPath), n.path("/etc/origin/node/node.kubeconfig")); err != nil {
		n.t.Fatal(err)
	}
}

// start starts the daemon and returns when it answers. It ends with the test.
func (n *node) start() {
	n.t.Helper()
	var err error
	n.process, err = lab.Beside(lab.Command{
		Argv: append([]string{n.program()}, n.args...),
		Env:  append([]string{"PATH=" + lab.Path, "GORACE=atexit_sleep_ms=0"}, n.env...),
	})
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(n.stop)
	n.until("it listens", func() bool {
		for _, l := range n.status().Listeners {
			n.addr, err = netip.ParseAddrPort(l.Address)
			return err == nil && l.Error == "" && l.UDP
		}
		return false
	})
}

// stop stops the daemon and shows its output if the test failed. A second stop does nothing.
func (n *node) stop() {
	n.t.Helper()
	if n.process == nil {
		return
	}
	n.process.Stop()
	output := n.process.Output()
	n.process = nil
	if strings.Contains(output, "WARNING: DATA RACE") {
		n.t.Error("node-dns has a data race")
	}
	if n.t.Failed() {
		n.t.Logf("output of node-dns:\n%s", tail(output, 8<<10))
	}
}

func tail(text string, most int) string {
	return text[max(0, len(text)-most):]
}

// status returns the daemon's status, or the zero Status if it is not running yet.
func (n *node) status() control.Status {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), patience)
	defer cancel()
	status, err := control.FetchStatus(ctx, control.SocketPath(n.root))
	if err != nil && !n.process.Running() {
		n.t.Fatalf("node-dns ended: %v", err)
	}
	return status
}

// until waits until holds returns true.
func (n *node) until(what string, holds func() bool) {
	n.t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			n.t.Fatalf("timed out after %v: %s", patience, what)
		}
	}
}

// udpSize is the EDNS size in the queries: the size that fits everywhere (dnsflagday.net/2020).
const udpSize = 1232

func (n *node) ask(name, qtype string) *dns.Msg {
	n.t.Helper()
	return dnstest.Exchange(n.t, n.addr, name, dns.StringToType[qtype], dnstest.EDNS(udpSize))
}

// answers waits for the wanted answer: see conformance.Gist.
func (n *node) answers(name, qtype, want string) {
	n.t.Helper()
	got := ""
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		if got = conformance.Gist(n.ask(name, qtype)); got == want {
			return
		}
		if time.Now().After(end) {
			n.t.Fatalf("%s %s: got %s for %v, want %s", name, qtype, got, patience, want)
		}
	}
}
