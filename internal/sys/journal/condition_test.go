package journal

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestConditions: each condition has a unique ID and name, and an explanation.
func TestConditions(t *testing.T) {
	used := map[string]Condition{}
	for c, is := range conditions {
		if !regexp.MustCompile(`^[0-9a-f]{32}$`).MatchString(is.ID) {
			t.Errorf("%d: ID %q; run `systemd-id128 new` to generate one", c, is.ID)
		}
		if !regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`).MatchString(is.Name) {
			t.Errorf("%d: name %q", c, is.Name)
		}
		if !strings.HasSuffix(is.When, ".") || is.Do != "" && !strings.HasSuffix(is.Do, ".") {
			t.Errorf("%s: %q, %q; want complete sentences", c, is.When, is.Do)
		}
		for _, key := range []string{is.ID, is.Name} {
			if other, ok := used[key]; ok {
				t.Errorf("%d and %d both have %s", c, other, key)
			}
			used[key] = c
		}
	}
	if none := Condition(0); none.String() != "" || none.Explain() != (Explanation{}) {
		t.Errorf("the zero Condition has %+v", none.Explain())
	}
}

// TestConditionsAreLogged: each constant has an entry in conditions, is used in another package,
// and appears in a test or golden file, as condition=NAME or by its constant.
func TestConditionsAreLogged(t *testing.T) {
	constants, used, seen := map[string]Condition{}, map[string]bool{}, map[string]bool{}
	names, rows := constantsOf(t, "condition.go"), slices.Sorted(maps.Keys(conditions))
	if len(names) != len(rows) {
		t.Fatalf("%d constants, %d entries", len(names), len(rows))
	}
	for i, name := range names {
		constants[name] = rows[i]
	}
	reference, logged := regexp.MustCompile(`\bjournal\.(\w+)`), regexp.MustCompile(`condition=([a-z-]+)`)
	walk(t, func(path, text string) {
		names := seen
		isProduct := strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go")
		if isProduct {
			names = used
		}
		for _, match := range reference.FindAllStringSubmatch(text, -1) {
			names[match[1]] = true
		}
		if isProduct {
			return
		}
		for _, match := range logged.FindAllStringSubmatch(text, -1) {
			seen[match[1]] = true
		}
	})
	for name, c := range constants {
		if !used[name] {
			t.Errorf("nothing logs %s", name)
		}
		if !seen[c.String()] && !seen[name] {
			t.Errorf("no test checks that condition=%s is logged", c)
		}
	}
}

// constantsOf returns the names of a file's constants in order.
func constantsOf(t *testing.T, path string) (names []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, decl := range file.Decls {
		if group, ok := decl.(*ast.GenDecl); ok && group.Tok == token.CONST {
			for _, spec := range group.Specs {
				for _, name := range spec.(*ast.ValueSpec).Names {
					names = append(names, name.Name)
				}
			}
		}
	}
	return names
}

// walk visits the sources of the other packages and the golden files of their tests.
func walk(t *testing.T, visit func(path, text string)) {
	t.Helper()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, top := range []string{"../../../cmd", "../../../internal", "../../../test"} {
		err := filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if whole, err := filepath.Abs(path); entry.IsDir() && (err != nil || whole == here) {
				return filepath.SkipDir
			}
			if entry.IsDir() || !strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, ".txt") {
				return nil
			}
			text, err := os.ReadFile(path)
			visit(path, string(text))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
