package edns

import (
	"encoding/json"
	"os"
	"slices"
	"testing"
)

// fewest is how many checks there are at least: what was measured on other nameservers are 113.
const fewest = 113

// TestEveryCheckHasARow: none of the checks of the file is forgotten, and no id stands for two rows.
func TestEveryCheckHasARow(t *testing.T) {
	text, err := os.ReadFile("testdata/edns-checks.json")
	if err != nil {
		t.Fatal(err)
	}
	var checks []struct{ ID, Proto, Desc, Expect string }
	if err := json.Unmarshal(text, &checks); err != nil {
		t.Fatal(err)
	}
	if len(checks) != 57 {
		t.Errorf("%d checks in the file", len(checks))
	}
	ids := upstreamIDs()
	for _, r := range table() {
		ids = append(ids, r.id)
	}
	for _, r := range tcpRows {
		ids = append(ids, r.id)
	}
	for _, check := range checks {
		if !slices.Contains(ids, check.ID) {
			t.Errorf("%s (%s) has no row: %s", check.ID, check.Desc, check.Expect)
		}
	}
	slices.Sort(ids)
	for i := 1; i < len(ids); i++ {
		if ids[i] == ids[i-1] {
			t.Errorf("%s stands for two rows", ids[i])
		}
	}
	if t.Logf("%d rows", len(ids)); len(ids) < fewest {
		t.Errorf("%d rows, fewer than %d", len(ids), fewest)
	}
}
