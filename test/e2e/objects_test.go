package e2e

import (
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

// objects reads the objects of a file.
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

// object reads one object in YAML.
func object(t testing.TB, format string, args ...any) *kube.Object {
	t.Helper()
	objects, err := kube.Objects(fmt.Appendf(nil, format, args...))
	if err != nil || len(objects) != 1 {
		t.Fatalf("%d objects, %v", len(objects), err)
	}
	return objects[0]
}

// create creates objects.
func create(t testing.TB, c *kube.Cluster, objects ...*kube.Object) {
	t.Helper()
	if err := c.Apply(t.Context(), objects...); err != nil {
		t.Fatal(err)
	}
}

// remove deletes an object.
func remove(t testing.TB, c *kube.Cluster, o *kube.Object) {
	t.Helper()
	if err := c.Client(o).Delete(t.Context(), o.GetName(), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

func namespace(t testing.TB, name string) *kube.Object {
	return object(t, "{apiVersion: v1, kind: Namespace, metadata: {name: %s}}", name)
}
