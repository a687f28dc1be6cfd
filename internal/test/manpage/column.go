package manpage

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// Column returns the first column of the tables below a heading of a Markdown document, up to the
// next heading, sorted.
func Column(t testing.TB, path, heading string) []string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(data), "\n"+heading+"\n")
	if !found {
		t.Fatalf("%s: no heading %q", path, heading)
	}
	section, _, _ = strings.Cut(section, "\n#")
	var cells []string
	head := true // in the header of a table: the names and the line below
	for line := range strings.Lines(section) {
		cell, isRow := strings.CutPrefix(line, "| ")
		switch {
		case strings.HasPrefix(line, "|--"):
			head = false
		case !isRow:
			head = true
		case !head:
			cell, _, _ = strings.Cut(cell, " |")
			cells = append(cells, cell)
		}
	}
	slices.Sort(cells)
	return cells
}
