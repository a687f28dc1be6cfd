package faults

import (
	"os"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/test/faultplan"
)

// TestDocumentHasRows: the document lists exactly the tested rows, with their promises.
func TestDocumentHasRows(t *testing.T) {
	promises := map[string]string{}
	for _, row := range rowsOf(t, "| fault | promise | node-dns |") {
		promises[row[0]] = row[1]
	}
	for _, row := range faultplan.Rows() {
		if promises[row.Name] != row.Promise {
			t.Errorf("%s: got %q in the document, want %q", row.Name, promises[row.Name], row.Promise)
		}
		delete(promises, row.Name)
	}
	for name := range promises {
		t.Errorf("the documented row %q is not tested", name)
	}
}

// rowsOf returns the cells of the document's table with this header.
func rowsOf(t *testing.T, header string) (rows [][]string) {
	t.Helper()
	_, table, found := strings.Cut(read(t, "../../docs/explanation/faults.md"), header)
	if !found {
		t.Fatalf("no table begins with %s", header)
	}
	table, _, _ = strings.Cut(table, "\n\n")
	lines := strings.Split(strings.TrimSpace(table), "\n")
	for _, line := range lines[2:] { // skip the rest of the header and the rule
		var cells []string
		for _, cell := range strings.Split(strings.Trim(line, "|"), "|") {
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
