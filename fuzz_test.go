package nodedns_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestFuzzTable: the targets of `fuzz quick` exist and have seed inputs. `go test` does not
// report a missing target.
func TestFuzzTable(t *testing.T) {
	script, err := os.ReadFile("scripts/fuzz")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile(`(?m)^([\w/]+) (Fuzz\w+): .`).FindAllStringSubmatch(string(script), -1)
	if len(rows) < 10 {
		t.Fatalf("got only the rows %q", rows)
	}
	for _, row := range rows {
		dir := filepath.Join("internal", row[1])
		files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			found = found || strings.Contains(string(text), "\nfunc "+row[2]+"(")
		}
		inputs, err := os.ReadDir(filepath.Join(dir, "testdata/fuzz", row[2]))
		if err != nil || len(inputs) == 0 || !found {
			t.Errorf("%s in %s: exists %v, %d inputs, %v", row[2], dir, found, len(inputs), err)
		}
	}
}
