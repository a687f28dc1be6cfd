package faults

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/test/faultplan"
	"github.com/node-dns/node-dns/internal/test/golden"
)

// TestPage checks that the page of promises has all rows that are run, and no others.
func TestPage(t *testing.T) {
	var table strings.Builder
	table.WriteString("| fault | promise |\n|---|---|\n")
	for _, row := range faultplan.Rows() {
		fmt.Fprintf(&table, "| %s | %s |\n", row.Name, row.Promise)
	}
	golden.CheckTable(t, "../../docs/appendix/faults.md", "./test/faults -run TestPage", table.String())
}

// TestMeasuredRows checks that the last measurement has all rows that are run, with their promises,
// and no others.
func TestMeasuredRows(t *testing.T) {
	const path = "../../bench/results/faults.md"
	promises := map[string]string{}
	for _, row := range rowsOf(t, path, "| fault | promise | node-dns |") {
		promises[row[0]] = row[1]
	}
	for _, row := range faultplan.Rows() {
		if promises[row.Name] != row.Promise {
			t.Errorf("%s: promise of %q is %q, want %q", path, row.Name, promises[row.Name], row.Promise)
		}
		delete(promises, row.Name)
	}
	for name := range promises {
		t.Errorf("%s has %q, which no test plays", path, name)
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
