package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/node-dns/node-dns/test/e2e/kube"
)

func configMap(t testing.TB, name, key, text string) *kube.Object {
	t.Helper()
	o := object(t, "{apiVersion: v1, kind: ConfigMap, metadata: {name: %s, namespace: kube-system}}", name)
	o.Object["data"] = map[string]any{key: text}
	return o
}

// TestFromCluster: a node with its own certificate and the rights that our roles file grants all
// nodes follows the configuration of CoreDNS, kube-dns and OpenShift's operator, including changes,
// and across a restart without the API.
func TestFromCluster(t *testing.T) {
	t.Parallel() // mostly waits
	c := newKube(t, kube.Config{})
	create(t, c, append(objects(t, manifestFile), kube.NodeObject())...)
	create(t, c, object(t, `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: dnses.operator.openshift.io}
spec:
  group: operator.openshift.io
  scope: Cluster
  names: {plural: dnses, singular: dns, kind: DNS, listKind: DNSList}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, x-kubernetes-preserve-unknown-fields: true}}}}
`))
	operator := object(t, "{apiVersion: operator.openshift.io/v1, kind: DNS, metadata: {name: default}, spec: {servers: "+
		"[{name: lab, zones: [lab.test], forwardPlugin: {upstreams: [198.51.100.3]}}]}}")
	// The API server needs a moment to serve a new kind.
	for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		if err := c.Apply(t.Context(), operator); err == nil {
			break
		} else if time.Now().After(end) {
			t.Fatal(err)
		}
	}
	corefile := func(server string) *kube.Object {
		return configMap(t, "coredns", "Corefile", fmt.Sprintf(`.:53 {
    errors
    kubernetes cluster.local in-addr.arpa ip6.arpa
    hosts {
        192.0.2.77 printer.test
        fallthrough
    }
    rewrite name old.corp.test new.corp.test
    forward . /etc/resolv.conf
}
corp.test:53 {
    forward . %s
}
`, server))
	}
	create(t, c, configMap(t, "kube-dns", "stubDomains", `{"stub.test": ["198.51.100.4"]}`))

	n := newNode(t, "fromCluster: true")
	n.credentials(c, kube.Node())
	n.start()
	routes := func() string {
		var words []string
		for _, r := range n.status().Routes {
			words = append(words, r.Domain+"="+r.Servers[0].Address+" "+r.Source)
		}
		return strings.Join(words, "\n")
	}
	awaits := func(want string) {
		t.Helper()
		n.until("the routes have "+want, func() bool { return strings.Contains(routes(), want) })
	}
	awaits("stub.test.=198.51.100.4 ConfigMap kube-system/kube-dns stubDomains")
	create(t, c, corefile("198.51.100.1")) // the cluster has migrated to CoreDNS
	awaits("corp.test.=198.51.100.1 ConfigMap kube-system/coredns Corefile:12")
	awaits("lab.test.=198.51.100.3 dns.operator/default servers[0]")
	n.until("kube-dns's domain is left to others", func() bool { return !strings.Contains(routes(), "stub.test.") })
	n.answers("printer.test", "A", "NOERROR A 192.0.2.77")
	n.answers("77.2.0.192.in-addr.arpa", "PTR", "NOERROR PTR printer.test.")
	status := n.status()
	const rewrite = "ConfigMap kube-system/coredns Corefile:8"
	if !slices.ContainsFunc(status.Notes, func(note string) bool { return strings.Contains(note, rewrite) }) {
		t.Errorf("the notes do not list the unfollowed setting: %q", status.Notes)
	}
	if r := status.Cluster.Resolver; len(r.MissingRights) > 0 || len(status.Problems) > 0 {
		t.Errorf("missing rights %v, problems %v", r.MissingRights, status.Problems)
	}
	update(t, c, corefile("198.51.100.2"))
	awaits("corp.test.=198.51.100.2")
	remove(t, c, operator)
	n.until("the operator's domain is left to others", func() bool {
		return !strings.Contains(routes(), "lab.test.")
	})

	n.stop()
	c.StopAll()
	n.start()
	awaits("corp.test.=198.51.100.2")
	n.answers("printer.test", "A", "NOERROR A 192.0.2.77")
}
