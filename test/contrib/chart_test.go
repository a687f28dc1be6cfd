package contrib

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"

	"github.com/node-dns/node-dns/internal/intercept"
	"github.com/node-dns/node-dns/internal/nodeconfig"
)

// kubeObject is a Kubernetes object with the fields that these tests compare.
type kubeObject struct {
	Kind     string
	Metadata struct{ Name string }
	Rules    []map[string]any  // of a role
	Data     map[string]string // of a ConfigMap
	Spec     struct {
		Template struct {
			Spec struct {
				InitContainers []container `yaml:"initContainers"`
				Containers     []container
			}
		}
	}
}

type container struct {
	Name         string
	VolumeMounts []struct {
		MountPath string `yaml:"mountPath"`
		ReadOnly  bool   `yaml:"readOnly"`
	} `yaml:"volumeMounts"`
}

// kubeObjects reads the objects of a file, by kind and name.
func kubeObjects(t *testing.T, path string) map[string]kubeObject {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]kubeObject{}
	for decoder := yaml.NewDecoder(bytes.NewReader(data)); ; {
		var o kubeObject
		err := decoder.Decode(&o)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		all[o.Kind+"/"+o.Metadata.Name] = o
	}
}

// chartObjects returns the objects of the chart, as test/chart has rendered them.
func chartObjects(t *testing.T, variant string) map[string]kubeObject {
	t.Helper()
	return kubeObjects(t, repository+"/test/chart/testdata/"+variant+".yaml")
}

// TestChartConfig: node-dns reads the node-dns.yaml of the chart without a fault.
func TestChartConfig(t *testing.T) {
	for _, test := range []struct{ variant, name, intercept, metrics string }{
		{"default", "node-dns", "clusterDNS", nodeconfig.DefaultMetrics.Address.String()},
		{"all", "dns-agent", "clusterDNS 169.254.20.10", "[::]:9454"},
		{"without", "node-dns", "none", nodeconfig.DefaultMetrics.Address.String()},
	} {
		t.Run(test.variant, func(t *testing.T) {
			root := t.TempDir()
			paths := nodeconfig.DefaultPaths(root)
			if err := os.MkdirAll(filepath.Dir(paths.NodeDNS), 0o755); err != nil {
				t.Fatal(err)
			}
			text := chartObjects(t, test.variant)["ConfigMap/"+test.name].Data["node-dns.yaml"]
			if err := os.WriteFile(paths.NodeDNS, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			config, err := nodeconfig.Load(paths)
			if err != nil || config.Intercept.String() != test.intercept || config.Metrics.Address.String() != test.metrics {
				t.Errorf("got intercept %s, metrics %s, %v", config.Intercept, config.Metrics.Address, err)
			}
		})
	}
}

// TestChartRights: the chart's roles are those of contrib/cluster-role.yaml that the node-dns.yaml
// needs.
func TestChartRights(t *testing.T) {
	shipped := kubeObjects(t, repository+"/contrib/cluster-role.yaml")
	for _, test := range []struct {
		variant, name string
		roles         []string // in the file
	}{
		{"default", "node-dns", []string{"ClusterRole/node-dns", "ClusterRole/node-dns-pods", "ClusterRole/node-dns-from-cluster", "Role/node-dns-from-cluster"}},
		{"all", "dns-agent", []string{"ClusterRole/node-dns", "ClusterRole/node-dns-pods", "ClusterRole/node-dns-nodes"}},
		{"without", "node-dns", []string{"ClusterRole/node-dns"}},
	} {
		t.Run(test.variant, func(t *testing.T) {
			want := map[string][]map[string]any{}
			for _, role := range test.roles {
				kind, rules := shipped[role].Kind, shipped[role].Rules
				if len(rules) == 0 {
					t.Fatalf("contrib/cluster-role.yaml has no %s", role)
				}
				want[kind] = append(want[kind], rules...)
			}
			got := map[string][]map[string]any{}
			for key, o := range chartObjects(t, test.variant) {
				if len(o.Rules) > 0 {
					got[o.Kind] = append(got[o.Kind], o.Rules...)
				}
				if len(o.Rules) > 0 && key != o.Kind+"/kube-system:"+test.name {
					t.Errorf("unexpected role %s", key)
				}
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("-contrib +chart:\n%s", d)
			}
		})
	}
}

// TestChartMounts: each program may write its own directory and read the other's.
func TestChartMounts(t *testing.T) {
	spec := chartObjects(t, "default")["DaemonSet/node-dns"].Spec.Template.Spec
	request, state := filepath.Dir(intercept.RequestFile("/")), filepath.Dir(intercept.StateFile("/"))
	config := filepath.Dir(nodeconfig.DefaultPaths("/").NodeDNS)
	want := map[string]map[string]string{
		"intercept": {request: "read", state: "write"},
		"node-dns": {
			config: "read", request: "write", state: "read", "/var/cache/node-dns": "write",
			"/var/run/secrets/kubernetes.io/serviceaccount": "read",
		},
	}
	got := map[string]map[string]string{}
	for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
		got[c.Name] = map[string]string{}
		for _, m := range c.VolumeMounts {
			got[c.Name][m.MountPath] = "write"
			if m.ReadOnly {
				got[c.Name][m.MountPath] = "read"
			}
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}
