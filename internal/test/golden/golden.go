// Package golden compares rendered text with golden files. Only tests may import it, because it
// adds the flag -update to their binary.
package golden

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// Check fails the test unless the file at path, usually below testdata, equals got byte by byte.
// With -update it writes the file and makes its directory.
func Check(t testing.TB, path, got string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got; -update writes it):\n%s", path, diff)
	}
}

// CheckTable is Check for the table in a page, between two comments. run is the package and the
// flag -run of the test that writes the table: the first comment names them.
func CheckTable(t testing.TB, path, run, got string) {
	t.Helper()
	begin, end := "<!-- Written by `go test "+run+" -update`. -->\n", "<!-- End of the table. -->\n"
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(page), begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s has no place for the table of %s", path, run)
	}
	Check(t, path, before+begin+"\n"+got+"\n"+end+after)
}

// Table renders a Markdown table with two columns.
func Table(first, second string, rows [][2]string) string {
	var table strings.Builder
	for _, row := range append([][2]string{{first, second}, {"---", "---"}}, rows...) {
		fmt.Fprintf(&table, "| %s | %s |\n", row[0], row[1])
	}
	return strings.Replace(table.String(), "| --- | --- |", "|---|---|", 1)
}

// Updating reports whether -update is set, for tests that store golden files elsewhere.
func Updating() bool { return *update }

// Wrap breaks text at spaces into lines of at most width bytes. A longer word has its own line.
func Wrap(text string, width int) string {
	var all strings.Builder
	length := 0
	for _, word := range strings.Fields(text) {
		switch {
		case length > 0 && length+1+len(word) > width:
			all.WriteString("\n")
			length = 0
		case length > 0:
			all.WriteString(" ")
			length++
		}
		all.WriteString(word)
		length += len(word)
	}
	return all.String()
}
