package e2e

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/node-dns/node-dns/internal/kube/cluster"
	"github.com/node-dns/node-dns/test/e2e/kube"
)

// TestKubeconfigAppears: the node's credentials are written after the daemon has started, such as
// when a node joins its cluster.
func TestKubeconfigAppears(t *testing.T) {
	tests := []struct{ name, before string }{
		{"none before", ""},
		{"an empty file before", " "},
		{"half a file before", "apiVersion: v1\nkind: Config\nclusters: [{name: kube, cluster: {server: https://127.0.0.1:1"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := static.get(t)
			n := newNode(t, "kubeconfig: "+kubeconfigPath)
			if test.before != "" {
				n.write(kubeconfigPath, test.before)
			}
			n.start()
			n.answers(kubernetesName, "A", "SERVFAIL ede 14")
			n.says("kubeconfig")
			n.credentials(c, kube.Reader())
			n.answers(kubernetesName, "A", "NOERROR A 10.96.0.1")
			n.isWell()
		})
	}
}

// TestCertificateRenewed: the certificate files are replaced while the certificate is still valid,
// as a kubelet does, or after it has expired. In both cases the daemon continues without
// intervention.
func TestCertificateRenewed(t *testing.T) {
	t.Parallel() // waits for certificates to expire
	c := static.get(t)
	tests := []struct {
		name        string
		life, renew time.Duration // of the first certificate
	}{
		{"in time", 6 * time.Second, 3 * time.Second},
		{"too late", 3 * time.Second, 6 * time.Second},
	}
	for i, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			n := newNode(t)
			dir := n.path("/etc/node-dns")
			user := kube.Reader()
			user.Until = time.Now().Add(test.life)
			if err := c.WriteKubeconfig(dir, user); err != nil {
				t.Fatal(err)
			}
			n.start()
			n.answers(kubernetesName, "A", "NOERROR A 10.96.0.1")
			time.Sleep(test.renew)
			if err := c.WriteCertificate(dir, kube.Reader()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Until(user.Until.Add(time.Second)))
			addr := []string{"10.97.4.1", "10.97.4.2"}[i]
			o := service(t, "default", "renewed", "{clusterIP: "+addr+", ports: [{port: 80}]}")
			create(t, c, o)
			defer remove(t, c, o)
			n.answers("renewed.default.svc.cluster.local", "A", "NOERROR A "+addr)
			n.isWell()
		})
	}
}

// TestServiceAccountToken: a token in a file works like a certificate.
func TestServiceAccountToken(t *testing.T) {
	c := static.get(t)
	account := object(t, "{apiVersion: v1, kind: ServiceAccount, metadata: {name: node-dns, namespace: kube-system}}") // kube.Reader
	create(t, c, account)
	defer remove(t, c, account)
	n := newNode(t)
	if err := c.WriteTokenKubeconfig(t.Context(), n.path("/etc/node-dns"), "kube-system", "node-dns"); err != nil {
		t.Fatal(err)
	}
	n.start()
	n.answers(kubernetesName, "A", "NOERROR A 10.96.0.1")
	n.isWell()
}

// TestRightsAskedFor: the API's review of the rights agrees with the result of using them. A node's
// certificate may list the pods of its own node, but not all pods.
func TestRightsAskedFor(t *testing.T) {
	c := static.get(t)
	of := func(resource string) []string { return []string{"list " + resource, "watch " + resource} }
	unbound := slices.Concat(of("endpointslices.discovery.k8s.io"), of("namespaces"))
	tests := []struct {
		name    string
		user    kube.User
		missing []string
	}{
		{"all that is needed", kube.Reader(), nil},
		{"a node before the manifest is applied", kube.Node(), unbound},
		{"nothing", kube.Nobody(), slices.Concat(unbound, of("pods"), of("services"))},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := c.WriteKubeconfig(dir, test.user); err != nil {
				t.Fatal(err)
			}
			got := missingRights(t, dir, cluster.Features{NodePods: true})
			slices.Sort(test.missing)
			if !slices.Equal(got, test.missing) {
				t.Errorf("missing %q, want %q", got, test.missing)
			}
		})
	}
}

// TestMissingRights: the status names the missing right. After it is granted, there is no problem
// left.
func TestMissingRights(t *testing.T) {
	c := static.get(t)
	manifest := objects(t, manifestFile)
	tests := []struct {
		name    string
		user    kube.User
		missing []string
		give    []*kube.Object
	}{
		{"a node before the manifest is applied", kube.Node(), []string{"list endpointslices.discovery.k8s.io", "list namespaces"}, manifest},
		{
			"a user without rights", kube.Nobody(),
			[]string{"list endpointslices.discovery.k8s.io", "list namespaces", "list pods", "list services"},
			kube.Bindings(kube.Nobody(), manifest),
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			n := newNode(t)
			n.credentials(c, test.user)
			n.start()
			n.until("the status has the missing rights", func() bool {
				resolver := n.status().Cluster.Resolver
				return resolver != nil && slices.Equal(slices.Sorted(slices.Values(resolver.MissingRights)), test.missing)
			})
			n.says(test.missing[0])
			n.answers(kubernetesName, "A", "SERVFAIL ede 14")
			for _, o := range test.give {
				if o.GetKind() == "ClusterRoleBinding" {
					create(t, c, o)
					defer remove(t, c, o)
				}
			}
			n.answers(kubernetesName, "A", "NOERROR A 10.96.0.1")
			n.isWell()
			n.until("it knows the pods of its node", n.knowsPods)
		})
	}
}

// TestPodsAreOptional: without the right to pods everything except autopath works, and the status
// gives the reason.
func TestPodsAreOptional(t *testing.T) {
	c := static.get(t)
	user := kube.User{Name: "podless"}
	var roles []*kube.Object
	for _, o := range objects(t, manifestFile) {
		if o.GetKind() == "ClusterRole" && o.GetName() == "node-dns" {
			roles = append(roles, o)
		}
	}
	bindings := kube.Bindings(user, roles)
	create(t, c, bindings...)
	defer remove(t, c, bindings[0])
	n := newNode(t)
	n.credentials(c, user)
	n.start()
	n.answers(kubernetesName, "A", "NOERROR A 10.96.0.1")
	n.isWell()
	n.until("autopath is off without the right", func() bool {
		autopath := n.status().Cluster.Resolver.Autopath
		return !autopath.On && strings.Contains(autopath.Why, "list pods")
	})
}

// knowsPods reports whether autopath is on and has the fixtures' pods.
func (n *node) knowsPods() bool {
	resolver := n.status().Cluster.Resolver
	return resolver != nil && resolver.Autopath.On && resolver.Pods >= 9
}

// says waits until the status has a problem that contains word.
func (n *node) says(word string) {
	n.t.Helper()
	n.until("the status has a problem with "+word, func() bool { return strings.Contains(strings.Join(n.status().Problems, "\n"), word) })
}

// isWell waits until the status has no problem.
func (n *node) isWell() {
	n.t.Helper()
	n.until("the status has no problems", func() bool { return len(n.status().Problems) == 0 })
}

// missingRights returns the rights that the kubeconfig in a directory lacks for these features,
// sorted.
func missingRights(t testing.TB, dir string, features cluster.Features) []string {
	t.Helper()
	missing, err := cluster.MissingRights(t.Context(), cluster.Config{
		Kubeconfig: filepath.Join(dir, kube.KubeconfigFile), NodeName: kube.NodeName, Features: features,
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, right := range missing {
		got = append(got, right.String())
	}
	slices.Sort(got)
	return got
}
