package e2e

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/node-dns/node-dns/test/e2e/kube"
)

// TestKubeconfigAppears: the node's credentials are written after the daemon has started, as when a node joins its cluster.
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

// TestCertificateRenewed: the certificate's files are replaced while it is still good, as a kubelet does, and when it has ended
// already. In both cases the daemon goes on without a word from anybody.
func TestCertificateRenewed(t *testing.T) {
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

// TestMissingRights: the status says which right is missing; when it is given, all is well.
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
			"somebody without any right", kube.Nobody(),
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

// TestPodsAreOptional: without the right to pods everything works but autopath, and the status says why.
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
	n.until("autopath is off for want of the right", func() bool {
		autopath := n.status().Cluster.Resolver.Autopath
		return !autopath.On && strings.Contains(autopath.Why, "list pods")
	})
}

// knowsPods reports whether autopath is on, and has the pods of the fixtures.
func (n *node) knowsPods() bool {
	resolver := n.status().Cluster.Resolver
	return resolver != nil && resolver.Autopath.On && resolver.Pods >= 9
}

// says waits until the status names a problem with this word in it.
func (n *node) says(word string) {
	n.t.Helper()
	n.until("the status has a problem with "+word, func() bool { return strings.Contains(strings.Join(n.status().Problems, "\n"), word) })
}

// isWell waits until the status names no problem.
func (n *node) isWell() {
	n.t.Helper()
	n.until("the status has no problems", func() bool { return len(n.status().Problems) == 0 })
}
