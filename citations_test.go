package nodedns_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/test/faultplan"
)

// citation matches a document's reference to tests: a directory, and functions, or one function and
// its subtest, as in `internal/dns/cache: TestStale, FuzzHit` and `test/faults: TestFaults/A
// flaps`.
var citation = regexp.MustCompile("`([a-z][a-z0-9/-]*|\\.): ((?:Test|Fuzz)[^`]*)`")

// TestCitations: each test that a document names exists.
func TestCitations(t *testing.T) {
	documents, err := filepath.Glob("docs/*/*.md")
	if err != nil {
		t.Fatal(err)
	}
	documents = append(documents, defences)
	cited := 0
	declared := map[string][]string{} // by directory
	for _, document := range documents {
		for _, match := range citation.FindAllStringSubmatch(readText(t, document), -1) {
			dir, names := match[1], strings.Split(match[2], ", ")
			if name, subtest, ok := strings.Cut(match[2], "/"); ok {
				names = []string{name}
				if !hasRow(dir, subtest) {
					t.Errorf("%s: %s has no %s", document, dir, match[2])
				}
			}
			if declared[dir] == nil {
				declared[dir] = testsIn(t, dir)
			}
			for _, name := range names {
				cited++
				if !slices.Contains(declared[dir], name) {
					t.Errorf("%s: %s has no %s", document, dir, name)
				}
			}
		}
	}
	if cited < 100 {
		t.Errorf("got only %d cited tests: the documents are parsed wrongly", cited)
	}
}

// hasRow reports whether the tests of a directory have a subtest. Only those of the fault matrix
// can be cited.
func hasRow(dir, subtest string) bool {
	return dir == "test/faults" && slices.ContainsFunc(faultplan.Rows(), func(r faultplan.Row) bool { return r.Name == subtest })
}

// testsIn returns the tests and fuzz targets of a package.
func testsIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil {
				names = append(names, f.Name.Name)
			}
		}
	}
	return names
}

// defences lists attacks and faults with their tests.
const defences = "test/defences.md"

// TestDefences checks that the document lists every incident, and that each row names a test.
func TestDefences(t *testing.T) {
	_, tables, ok := strings.Cut(readText(t, defences), "\n## Attacks and incidents\n")
	if !ok {
		t.Fatalf("%s has no table of incidents", defences)
	}
	const incidents = 30
	next, others := 1, 0
	for row := range strings.Lines(tables) {
		if !strings.HasPrefix(row, "| ") || strings.HasPrefix(row, "| # |") || strings.HasPrefix(row, "| attack or fault |") || strings.HasPrefix(row, "| fault |") {
			continue
		}
		first, _, _ := strings.Cut(row[2:], " |")
		if n, err := strconv.Atoi(first); err != nil {
			others++
		} else if n != next {
			t.Errorf("got row %d, want row %d", n, next)
		} else {
			next++
		}
		if !citation.MatchString(row) {
			t.Errorf("the row %s names no test", first)
		}
	}
	if next != incidents+1 || others < 20 {
		t.Errorf("got %d incidents and %d other rows", next-1, others)
	}
}

func readText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
