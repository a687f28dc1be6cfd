package e2e

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/node-dns/node-dns/test/e2e/kube"
)

// TestAwaitEndpoints: LackingEndpoints names each Service whose slices are missing or differ, and
// AwaitEndpoints waits for late controllers.
func TestAwaitEndpoints(t *testing.T) {
	c := newKube(t, kube.Config{})
	pod := func(name, ready, ip string) *kube.Object {
		return object(t, `
apiVersion: v1
kind: Pod
metadata: {name: %[1]s, namespace: awaited, labels: {app: db}, annotations: {lab/ip: %[3]s, lab/ready: "%[2]s"}}
spec: {hostname: %[1]s, subdomain: db}
`, name, ready, ip)
	}
	applied := []*kube.Object{
		kube.NodeObject(),
		namespace(t, "awaited"),
		service(t, "awaited", "db", "{clusterIP: None, selector: {app: db}, ports: [{port: 80}]}"),
		service(t, "awaited", "early", "{clusterIP: None, publishNotReadyAddresses: true, selector: {app: db}, ports: [{port: 80}]}"),
		service(t, "awaited", "empty", "{clusterIP: None, selector: {app: none}, ports: [{port: 80}]}"),
		service(t, "awaited", "mirrored", "{clusterIP: None, ports: [{port: 80}]}"),
		object(t, `
apiVersion: v1
kind: Endpoints
metadata: {name: mirrored, namespace: awaited}
subsets: [{addresses: [{ip: 172.30.50.8, hostname: m-0}], notReadyAddresses: [{ip: 172.30.50.9}], ports: [{port: 80}]}]
`),
		pod("db-0", "true", "172.30.50.1"),
		pod("db-1", "false", "172.30.50.2"),
	}
	create(t, c, applied...)
	lacking := func(objects []*kube.Object, want ...string) {
		t.Helper()
		got, err := c.LackingEndpoints(t.Context(), objects...)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("lacking (-want +got):\n%s", diff)
		}
	}
	lacking(applied,
		`awaited/db has no slice, want ["172.30.50.1 db-0" "172.30.50.2 db-1 not ready"]`,
		`awaited/early has no slice, want ["172.30.50.1" "172.30.50.2"]`,
		`awaited/empty has no slice, want []`,
		`awaited/mirrored has no slice, want ["172.30.50.8 m-0" "172.30.50.9 not ready"]`,
	)

	ctx, cancel := context.WithTimeout(t.Context(), endpointsTimeout)
	defer cancel()
	awaited := make(chan error, 1)
	go func() { awaited <- c.AwaitEndpoints(ctx, applied...) }()
	if err := c.StartControllers(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-awaited; err != nil {
		t.Fatal(err)
	}
	lacking(applied)
	lacking(append(applied, pod("db-2", "true", "172.30.50.3")),
		`awaited/db has ["172.30.50.1 db-0" "172.30.50.2 db-1 not ready"], want ["172.30.50.1 db-0" "172.30.50.2 db-1 not ready" "172.30.50.3 db-2"]`,
		`awaited/early has ["172.30.50.1" "172.30.50.2"], want ["172.30.50.1" "172.30.50.2" "172.30.50.3"]`,
	)
}
