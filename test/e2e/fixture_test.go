package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/node-dns/node-dns/test/e2e/kube"
)

// casesDir has the cases, their static fixtures and the expected deviations. The tests of
// internal/dns/zone use them too.
const casesDir = product + "/internal/dns/zone/testdata"

// TestFixturesHold: each object in the API server has everything in its fixture, including the
// status.
func TestFixturesHold(t *testing.T) {
	c := static.get(t)
	for _, name := range fixtureNames {
		t.Run(name, func(t *testing.T) {
			for _, want := range objects(t, staticFixtures(name)) {
				got, err := c.Client(want).Get(t.Context(), want.GetName(), metav1.GetOptions{})
				if err != nil {
					t.Errorf("%s %s/%s: %v", want.GetKind(), want.GetNamespace(), want.GetName(), err)
					continue
				}
				if kube.IsServersOwn(want) {
					continue
				}
				if diff := missing("", want.Object, got.Object); len(diff) > 0 {
					t.Errorf("%s %s/%s:\n%s", want.GetKind(), want.GetNamespace(), want.GetName(), strings.Join(diff, "\n"))
				}
			}
		})
	}
}

// missing returns the parts of want that are not in got: map entries, and list elements by
// position. Empty values may be absent.
func missing(path string, want, got any) []string {
	var all []string
	switch want := want.(type) {
	case map[string]any:
		got, _ := got.(map[string]any)
		for key, value := range want {
			all = append(all, missing(path+"."+key, value, got[key])...)
		}
		return all
	case []any:
		got, _ := got.([]any)
		if len(got) != len(want) {
			return []string{fmt.Sprintf("%s: %d elements, want %d", path, len(got), len(want))}
		}
		for i, value := range want {
			all = append(all, missing(fmt.Sprintf("%s[%d]", path, i), value, got[i])...)
		}
		return all
	}
	if want != "" && !cmp.Equal(want, got) {
		return []string{fmt.Sprintf("%s: %v, want %v", path, got, want)}
	}
	return nil
}

// TestFixturesThatNoAPIHolds: CoreDNS's unit tests have services with addresses in more networks
// than a cluster has, and some addresses occur twice. Their cases are only used in the tests of
// internal/dns/zone.
func TestFixturesThatNoAPIHolds(t *testing.T) {
	tests := []struct{ fixture, service, why string }{
		{"coredns-unit", "svc1", "10.0.0.1) is not in the valid range"},
		{"coredns-unit", "svcempty", "10.0.0.1) is not in the valid range"}, // svc1's address
		{"coredns-unit", "svc6", "1234:abcd::1) is not in the valid range"},
		{"coredns-unit-reverse", "svc1", "192.168.1.100) is not in the valid range"},
		{"coredns-unit-zonal", "clstr", "10.0.0.10) is not in the valid range"},
	}
	c := static.get(t)
	ns := namespace(t, "testns")
	create(t, c, ns)
	defer remove(t, c, ns)
	for _, test := range tests {
		t.Run(test.fixture+" "+test.service, func(t *testing.T) {
			for _, o := range objects(t, filepath.Join(casesDir, test.fixture+".yaml")) {
				if o.GetKind() != "Service" || o.GetNamespace() != "testns" || o.GetName() != test.service {
					continue
				}
				_, err := c.Client(o).Create(t.Context(), o, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
				if err == nil || !strings.Contains(err.Error(), test.why) {
					t.Errorf("got %v, want %s", err, test.why)
				}
				return
			}
			t.Error("the fixture has no such service")
		})
	}
}
