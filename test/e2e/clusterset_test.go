package e2e

import (
	"testing"
	"time"

	"github.com/node-dns/node-dns/test/e2e/kube"
)

// TestClusterSet: names that other clusters export are answered once the API has ServiceImports and
// the node has started, with only the rights of our shipped role.
func TestClusterSet(t *testing.T) {
	t.Parallel() // mostly waits
	c := newKube(t, kube.Config{})
	create(t, c, grants(objects(t, manifestFile))...)
	create(t, c, object(t, `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: serviceimports.multicluster.x-k8s.io
  annotations: {api-approved.kubernetes.io: "https://github.com/kubernetes/enhancements/pull/1645"}
spec:
  group: multicluster.x-k8s.io
  scope: Namespaced
  names: {plural: serviceimports, singular: serviceimport, kind: ServiceImport}
  versions:
  - name: v1alpha1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              type: {type: string, enum: [ClusterSetIP, Headless]}
              ips: {type: array, items: {type: string}}
              ports:
                type: array
                items:
                  type: object
                  properties: {name: {type: string}, protocol: {type: string}, port: {type: integer, format: int32}}
`), namespace(t, "sets"))
	serviceImport := func(name, spec string) *kube.Object {
		return object(t, "{apiVersion: multicluster.x-k8s.io/v1alpha1, kind: ServiceImport, metadata: {name: %s, namespace: sets}, spec: %s}", name, spec)
	}
	shared := serviceImport("shared", "{type: ClusterSetIP, ips: [10.42.0.1], ports: [{name: http, port: 80, protocol: TCP}]}")
	// The API server needs a moment to serve a new kind.
	for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		if err := c.Apply(t.Context(), shared); err == nil {
			break
		} else if time.Now().After(end) {
			t.Fatal(err)
		}
	}
	n := newNode(t)
	n.credentials(c, kube.Reader())
	n.start()
	n.answers("shared.sets.svc.clusterset.local", "A", "NOERROR A 10.42.0.1")
	n.answers("_http._tcp.shared.sets.svc.clusterset.local", "SRV", "NOERROR SRV 0 100 80 shared.sets.svc.clusterset.local.")
	n.answers("1.0.42.10.in-addr.arpa", "PTR", "NOERROR PTR shared.sets.svc.clusterset.local.")

	east := slice(t, "sets", "db", "10.43.0.1")
	east.SetLabels(map[string]string{"multicluster.kubernetes.io/service-name": "db", "multicluster.kubernetes.io/source-cluster": "east"})
	create(t, c, serviceImport("db", "{type: Headless, ports: [{name: http, port: 80, protocol: TCP}]}"), east)
	n.answers("db.sets.svc.clusterset.local", "A", "NOERROR A 10.43.0.1")
	n.answers("10-43-0-1.east.db.sets.svc.clusterset.local", "A", "NOERROR A 10.43.0.1")
	n.answers("db.sets.svc.cluster.local", "A", "NXDOMAIN")
	remove(t, c, shared)
	n.answers("shared.sets.svc.clusterset.local", "A", "NXDOMAIN")
	if r := n.status().Cluster.Resolver; r.Imports != 1 || len(r.MissingRights) > 0 {
		t.Errorf("the status has %d ServiceImports and the missing rights %v", r.Imports, r.MissingRights)
	}
}
