package faults

import (
	"os"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/test/faultplan"
)

// The page of promises, and the last measurement.
const (
	promises = "../../docs/explanation/faults.md"
	measured = "../../bench/results/faults.md"
)

// TestDocumentHasRows checks that the page and the measurement have all rows that are played, with their promises, and no others.
func TestDocumentHasRows(t *testing.T) {
	for path, header := range map[string]string{promises: "| fault | promise |\n", measured: "| fault | promise | node-dns |"} {
		documented := map[string]string{}
		for _, row := range rowsOf(t, path, header) {
			documented[row[0]] = row[1]
		}
		for _, row := range faultplan.Rows() {
			if documented[row.Name] != row.Promise {
				t.Errorf("%s: promise of %q is %q, want %q", path, row.Name, documented[row.Name], row.Promise)
			}
			delete(documented, row.Name)
		}
		for name := range documented {
			t.Errorf("%s has %q, which no test plays", path, name)
		}
	}
}

// rowsOf returns the cells of the first table in the file whose header line begins with header.
func rowsOf(t *testing.T, path, header string) (rows [][]string) {
	t.Helper()
	_, table, found := strings.Cut(read(t, path), header)
	if !found {
		t.Fatalf("%s has no table that begins with %s", path, header)
	}
	table, _, _ = strings.Cut(table, "\n\n")
	_, table, found = strings.Cut(table, "|---|---|")
	if !found {
		t.Fatalf("%s: the table that begins with %s has no rows", path, header)
	}
	_, table, _ = strings.Cut(table, "\n")
	for line := range strings.Lines(table) {
		var cells []string
		for _, cell := range strings.Split(strings.Trim(line, "|\n"), "|") {
			cells = append(cells, strings.TrimSpace(cell))
		}
		rows = append(rows, cells)
	}
	return rows
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
