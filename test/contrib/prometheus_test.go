package contrib

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/node-dns/node-dns/internal/nodeconfig"
	"github.com/node-dns/node-dns/internal/test/lab"
)

const alerts = repository + "/contrib/prometheus/rules.yaml"

// promtool runs promtool like an admin, and returns its output.
func promtool(t *testing.T, args ...string) string {
	t.Helper()
	lab.NeedPrograms(t, "promtool")
	out, err := exec.Command("promtool", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// TestAlerts: Prometheus accepts the alerts. Each is silent in normal operation and fires when it
// should.
func TestAlerts(t *testing.T) {
	promtool(t, "check", "rules", alerts)
	promtool(t, "test", "rules", "testdata/rules.yaml")
}

// TestEveryAlert: each alert has a test, a severity, a summary with the node, and a runbook.
func TestEveryAlert(t *testing.T) {
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr         string
				Labels, Annotations map[string]string
			}
		}
	}
	skim(t, alerts, &rules)
	var cases struct {
		Tests []struct {
			Name string
			Expr []struct {
				Samples []any `yaml:"exp_samples"`
			} `yaml:"promql_expr_test"`
		}
	}
	skim(t, "testdata/rules.yaml", &cases)
	tested := map[string]bool{}
	for _, c := range cases.Tests {
		tested[c.Name] = len(c.Expr) == 2 && len(c.Expr[0].Samples) == 0 && len(c.Expr[1].Samples) == 1
	}
	n := 0
	for _, group := range rules.Groups {
		for _, rule := range group.Rules {
			n++
			if !tested[rule.Alert] {
				t.Errorf("%s: testdata/rules.yaml lacks a silent or a firing case", rule.Alert)
			}
			if s := rule.Labels["severity"]; s != "critical" && s != "warning" && s != "info" {
				t.Errorf("%s: got severity %q", rule.Alert, s)
			}
			if !strings.Contains(rule.Annotations["summary"], "$labels.instance") || rule.Annotations["runbook"] == "" {
				t.Errorf("%s: got annotations %v", rule.Alert, rule.Annotations)
			}
			if strings.Contains(rule.Expr, "coredns_") {
				t.Errorf("%s uses metrics of %s", rule.Alert, nodeconfig.NamespaceCoreDNS)
			}
		}
	}
	if n < 12 {
		t.Errorf("got only %d alerts", n)
	}
}

// skim decodes the relevant parts of a file.
func skim(t *testing.T, path string, to any) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err == nil {
		err = yaml.Unmarshal(data, to)
	}
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}
