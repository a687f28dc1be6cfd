package doctor

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"
)

// TestRedirectPolicy: the policy that doctor prints is that of the chart, without its labels.
func TestRedirectPolicy(t *testing.T) {
	chart, err := os.ReadFile("../../../test/chart/testdata/cilium.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var printed map[string]any
	if err := yaml.Unmarshal([]byte(redirectPolicy), &printed); err != nil {
		t.Fatal(err)
	}
	for _, text := range strings.Split(string(chart), "\n---\n") {
		var object map[string]any
		if err := yaml.Unmarshal([]byte(text), &object); err != nil {
			t.Fatal(err)
		}
		if object["kind"] != printed["kind"] {
			continue
		}
		delete(object["metadata"].(map[string]any), "labels")
		if d := cmp.Diff(object, printed); d != "" {
			t.Errorf("-chart +doctor:\n%s", d)
		}
		return
	}
	t.Error("the chart has no policy")
}
