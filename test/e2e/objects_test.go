package e2e

import (
	"context"
	"fmt"
	"os"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/node-dns/node-dns/test/e2e/kube"
)

func readObjects(name string) ([]*kube.Object, error) {
	file, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return kube.Objects(file)
}

func objects(t testing.TB, name string) []*kube.Object {
	t.Helper()
	all, err := readObjects(name)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Fatalf("no objects in %s", name)
	}
	return all
}

// object parses one object in YAML.
func object(t testing.TB, format string, args ...any) *kube.Object {
	t.Helper()
	objects, err := kube.Objects(fmt.Appendf(nil, format, args...))
	if err != nil || len(objects) != 1 {
		t.Fatalf("%d objects, %v", len(objects), err)
	}
	return objects[0]
}

func create(t testing.TB, c *kube.Cluster, objects ...*kube.Object) {
	t.Helper()
	if err := c.Apply(t.Context(), objects...); err != nil {
		t.Fatal(err)
	}
}

// remove deletes an object, even in a cleanup, without a grace period, because there is no kubelet
// to end a pod.
func remove(t testing.TB, c *kube.Cluster, o *kube.Object) {
	t.Helper()
	if err := c.Client(o).Delete(context.WithoutCancel(t.Context()), o.GetName(), metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
		t.Fatal(err)
	}
}

func namespace(t testing.TB, name string) *kube.Object {
	return object(t, "{apiVersion: v1, kind: Namespace, metadata: {name: %s}}", name)
}

// update overwrites an object in any version.
func update(t testing.TB, c *kube.Cluster, o *kube.Object) {
	t.Helper()
	if _, err := c.Client(o).Update(t.Context(), o, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// service returns a Service with the given spec in YAML.
func service(t testing.TB, namespace, name, spec string) *kube.Object {
	return object(t, "{apiVersion: v1, kind: Service, metadata: {name: %s, namespace: %s}, spec: %s}", name, namespace, spec)
}

// slice returns the only EndpointSlice of a headless Service, with these IPv4 addresses.
func slice(t testing.TB, namespace, service string, addrs ...string) *kube.Object {
	o := object(t, `
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: %[2]s
  namespace: %[1]s
  labels: {kubernetes.io/service-name: %[2]s, service.kubernetes.io/headless: ""}
addressType: IPv4
ports: [{name: http, port: 80, protocol: TCP}]
`, namespace, service)
	endpoints := []any{}
	for _, addr := range addrs {
		endpoints = append(endpoints, map[string]any{"addresses": []any{addr}, "conditions": map[string]any{"ready": true}})
	}
	o.Object["endpoints"] = endpoints
	return o
}
