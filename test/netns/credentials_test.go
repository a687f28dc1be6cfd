package netns

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/test/kubetest"
	"github.com/node-dns/node-dns/internal/test/lab"
)

const (
	handedOver = "/var/lib/node-dns/kubeconfig"
	tokenFile  = "/etc/origin/node/token"
	account    = 4711 // user and group node-dns
)

// credentialsNode is a node of OpenShift 3 with a kubeconfig that names files for root only. The
// daemon runs as its own user.
type credentialsNode struct {
	*node
	api *kubetest.Server
}

func newCredentialsNode(t *testing.T) credentialsNode {
	t.Helper()
	n := credentialsNode{newNode(t, bare()), kubetest.NewServer(t)}
	for file, line := range map[string]string{"/etc/passwd": "node-dns:x:%d:%[1]d::/:/bin/false\n", "/etc/group": "node-dns:x:%d:\n"} {
		n.l.WriteFile(file, n.l.ReadFile(file)+fmt.Sprintf(line, account))
	}
	n.api.Apply("{apiVersion: v1, kind: Namespace, metadata: {name: shop}}\n---\n" +
		"{apiVersion: v1, kind: Service, metadata: {name: web, namespace: shop}, spec: {clusterIP: 172.30.0.7, ports: [{port: 80}]}}\n")
	n.l.WriteFile("/etc/origin/node/ca.crt", string(n.api.CA()))
	n.writeKubeconfig("tokenFile: token")
	n.setToken("first")
	n.l.WriteFile(nodeConfigFile, "apiVersion: v1\nkind: NodeConfig\ndnsDomain: cluster.local\nmasterKubeConfig: node.kubeconfig\n")
	n.chmod(0o600, nodeConfigFile)
	n.connect("eth0")
	n.unit.start(n.node)
	n.startAccount()
	return n
}

func (n credentialsNode) chmod(mode os.FileMode, path string) {
	n.t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		n.t.Fatal(err)
	}
}

// writeKubeconfig writes the kubeconfig with these credentials of its user.
func (n credentialsNode) writeKubeconfig(user string) {
	n.t.Helper()
	const path = "/etc/origin/node/node.kubeconfig"
	n.l.WriteFile(path+".new", fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: %q, certificate-authority: ca.crt}}]\n"+
		"contexts: [{name: c, context: {cluster: c, user: u}}]\ncurrent-context: c\nusers: [{name: u, user: {%s}}]\n", n.api.URL(), user))
	n.chmod(0o600, path+".new")
	n.l.Run("mv", path+".new", path)
}

// setToken changes the token of the API server and of the kubeconfig's token file.
func (n credentialsNode) setToken(token string) {
	n.t.Helper()
	n.api.SetToken(token)
	n.api.CloseConnections()
	n.l.WriteFile(tokenFile+".new", token+"\n")
	n.chmod(0o600, tokenFile+".new")
	n.l.Run("mv", tokenFile+".new", tokenFile)
}

// startAccount starts the daemon as node-dns.
func (n credentialsNode) startAccount() {
	n.t.Helper()
	if err := os.MkdirAll("/run/node-dns", 0o755); err != nil {
		n.t.Fatal(err)
	}
	if err := os.Chown("/run/node-dns", account, account); err != nil {
		n.t.Fatal(err)
	}
	n.node.daemon = n.l.Start(lab.Command{
		Argv: []string{lab.Binary(n.t, "node-dns"), "serve"}, User: account, Caps: []uintptr{unix.CAP_NET_BIND_SERVICE},
	})
}

// awaitSynced waits until the API is watched with this token and its names are answered.
func (n credentialsNode) awaitSynced(token string) {
	n.t.Helper()
	n.l.Await("the API to be watched with "+token+", which was handed over, and no problem with it", func() bool {
		status, err := control.FetchStatus(n.t.Context(), control.SocketPath("/"))
		address, _ := n.l.Try("dig", "+short", "+time=1", "+tries=1", "@"+nodeIP, "web.shop.svc.cluster.local")
		return err == nil && status.Cluster.Resolver != nil && status.Cluster.Resolver.Phase == "synced" &&
			strings.Contains(n.l.ReadFile(handedOver), "token: "+token+"\n") && address == "172.30.0.7\n" &&
			strings.Contains(strings.Join(status.Notes, "\n"), "using the copy that origin-dns-dispatcher made ("+handedOver+")") &&
			!slices.ContainsFunc(status.Problems, func(p string) bool { return strings.Contains(p, "kubeconfig") || strings.Contains(p, "API") })
	})
	info, err := os.Stat(handedOver)
	if err != nil || info.Mode().Perm() != 0o400 {
		n.t.Errorf("handed over: %v, %v", info, err)
	}
}

// TestCredentialsForRootAlone: credentials for root only are handed over to the daemon, again after
// each change. Plugins never are.
func TestCredentialsForRootAlone(t *testing.T) {
	n := newCredentialsNode(t)
	n.awaitSynced("first")
	n.setToken("second")
	n.awaitSynced("second")

	// If the files are not visible to the daemon, it makes the hook look again at its start.
	n.chmod(0o700, "/etc/origin/node")
	n.node.daemon.Stop()
	n.setToken("third")
	n.startAccount()
	n.awaitSynced("third")
	n.chmod(0o755, "/etc/origin/node")

	n.writeKubeconfig("exec: {apiVersion: client.authentication.k8s.io/v1, command: /bin/true}")
	n.l.Await("the plugin to be refused", func() bool {
		status, err := control.FetchStatus(t.Context(), control.SocketPath("/"))
		return err == nil && strings.Contains(strings.Join(status.Problems, "\n"), "origin-dns-dispatcher does not copy it: node-dns does not run credential plugins")
	})
	if out, _ := n.l.Try("dig", "+short", "@"+nodeIP, "web.shop.svc.cluster.local"); out != "172.30.0.7\n" {
		t.Errorf("known names are no longer answered: %s", out)
	}
	n.writeKubeconfig("tokenFile: token")
	n.awaitSynced("third")

	out := n.l.Run(n.program, "plan")
	for _, file := range []string{n.node.daemon.Output(), out, n.l.ReadFile(rewritesFile)} {
		if strings.Contains(file, "third") {
			t.Errorf("a token is in\n%s", file)
		}
	}
	n.node.daemon.Stop()
	n.l.Run(n.program, "restore")
	if _, err := os.Lstat(handedOver); err == nil {
		t.Error("the credentials still exist after a restore")
	}
}
