package kubewire

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/node-dns/node-dns/internal/dns/zone"
)

// TestServiceImports: a ServiceImport becomes a Service with an address, or a headless one. Only a
// few addresses are kept, because the answer for its ports grows with their product.
func TestServiceImports(t *testing.T) {
	var many []string
	for i := range 1000 {
		many = append(many, fmt.Sprintf(`"10.42.%d.%d"`, i/256, i%256))
	}
	list := `{"kind": "ServiceImportList", "metadata": {"resourceVersion": "9"}, "items": [
		{"metadata": {"name": "one", "namespace": "n", "resourceVersion": "7"}, "spec": {"type": "ClusterSetIP", "ips": ["10.42.0.1"], "ports": [{"name": "http", "port": 80}]}},
		{"metadata": {"name": "none", "namespace": "n", "resourceVersion": "8"}, "spec": {"type": "Headless", "ips": ["10.42.0.2"]}},
		{"metadata": {"name": "many", "namespace": "n", "resourceVersion": "9"}, "spec": {"type": "ClusterSetIP", "ips": [` + strings.Join(many, ", ") + `]}}]}`
	var got []zone.Service
	if _, err := NewDecoder(ServiceImports).List(strings.NewReader(list), JSON, func(o Object) error {
		got = append(got, *o.Value.(*zone.Service))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	key := func(name string) zone.Key { return zone.Key{Namespace: "n", Name: name} }
	want := []zone.Service{
		{Key: key("one"), ClusterIPs: addrs("10.42.0.1"), Ports: []zone.Port{{Name: "http", Number: 80}}},
		{Key: key("none"), Kind: zone.Headless},
		{Key: key("many"), ClusterIPs: addrs("10.42.0.0", "10.42.0.1", "10.42.0.2", "10.42.0.3")},
	}
	if diff := cmp.Diff(want, got, sameSet); diff != "" {
		t.Error(diff)
	}
}

// TestImportedSlices: the source cluster becomes a lowercase DNS label, or is dropped.
func TestImportedSlices(t *testing.T) {
	for label, want := range map[string]string{"east": "east", "East-1": "east-1", "east.example": "", "": "", strings.Repeat("x", 64): ""} {
		list := fmt.Sprintf(`{"kind": "EndpointSliceList", "metadata": {"resourceVersion": "9"}, "items": [{"metadata": {"name": "s", "namespace": "n", "resourceVersion": "7",
			"labels": {"multicluster.kubernetes.io/service-name": "db", "multicluster.kubernetes.io/source-cluster": %q}},
			"endpoints": [{"addresses": ["10.43.0.1"]}]}]}`, label)
		if _, err := NewDecoder(EndpointSlices).List(strings.NewReader(list), JSON, func(o Object) error {
			if s := o.Value.(*zone.Slice); s.Import != "db" || s.Service != "" || s.Cluster != want {
				t.Errorf("of %q: %+v", label, s)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
	}
}
