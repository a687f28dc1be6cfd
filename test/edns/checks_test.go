package edns

import (
	"encoding/json"
	"os"
	"slices"
	"testing"
)

// fewest is the minimum number of checks: 113 were measured on other nameservers.
const fewest = 113

// TestEveryCheckHasARow: every check in the file has a row, and row IDs are unique.
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
		t.Errorf("got %d checks in the file, want 57", len(checks))
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
			t.Errorf("two rows have the ID %s", ids[i])
		}
	}
	if t.Logf("%d rows", len(ids)); len(ids) < fewest {
		t.Errorf("%d rows, fewer than %d", len(ids), fewest)
	}
}
