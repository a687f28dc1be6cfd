package nodedns_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// markdown are the documents of the project.
func markdown(t *testing.T) (paths []string) {
	t.Helper()
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "packaging/*/*.md", ".github/*.md", "contrib/*/*.md", "test/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, found...)
	}
	if len(paths) < 30 {
		t.Fatalf("only %d documents were found: %q", len(paths), paths)
	}
	return paths
}

var (
	link     = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	noAnchor = regexp.MustCompile("[^a-z0-9_ -]")
)

// prose is a document without its code blocks.
func prose(text string) string {
	var all strings.Builder
	for i, part := range strings.Split(text, "```") {
		if i%2 == 0 {
			all.WriteString(part)
		}
	}
	return all.String()
}

// anchors are the anchors that GitHub generates from a document's headings.
func anchors(text string) (all []string) {
	for line := range strings.Lines(prose(text)) {
		hashes, heading, ok := strings.Cut(strings.TrimSpace(line), " ")
		if ok && hashes != "" && strings.Trim(hashes, "#") == "" {
			all = append(all, strings.ReplaceAll(noAnchor.ReplaceAllString(strings.ToLower(heading), ""), " ", "-"))
		}
	}
	return all
}

// TestLinks: each link from one file of the project to another leads to a file and a heading that
// exist.
func TestLinks(t *testing.T) {
	seen := 0
	for _, path := range markdown(t) {
		for _, match := range link.FindAllStringSubmatch(prose(readText(t, path)), -1) {
			target, anchor, _ := strings.Cut(match[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			seen++
			to := path
			if target != "" {
				to = filepath.Join(filepath.Dir(path), target)
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s links to %s, which does not exist", path, match[1])
				continue
			}
			if anchor != "" && !slices.Contains(anchors(readText(t, to)), anchor) {
				t.Errorf("%s links to %s, which has no such heading", path, match[1])
			}
		}
	}
	if seen < 100 {
		t.Errorf("only %d links were found", seen)
	}
}

// TestIndex: docs/README.md lists every page once.
func TestIndex(t *testing.T) {
	index := readText(t, "docs/README.md")
	_, index, _ = strings.Cut(index, "\n## ")
	for _, path := range markdown(t) {
		page, ok := strings.CutPrefix(path, "docs/")
		if !ok || page == "README.md" {
			continue
		}
		if n := strings.Count(index, "]("+page+")"); n != 1 {
			t.Errorf("docs/README.md lists %s %d times", page, n)
		}
	}
}

// written matches the part of a page that a test writes: up to the end of a table, or of the page.
var written = regexp.MustCompile(`(?s)<!-- Written by .*?(<!-- End of [^>]*-->|\z)`)

// TestWords: README.md and docs have at most 25,000 words that people wrote, as wc -w counts them,
// so that a reader finds things.
func TestWords(t *testing.T) {
	const bound = 25000
	total, pages := 0, 0
	for _, path := range markdown(t) {
		if path == "README.md" || strings.HasPrefix(path, "docs/") {
			total += len(strings.Fields(written.ReplaceAllString(readText(t, path), "")))
			pages++
		}
	}
	t.Logf("%d words in %d pages", total, pages)
	if total > bound || pages < 30 {
		t.Errorf("README.md and docs have %d words in %d pages, without what tests write; at most %d are allowed", total, pages, bound)
	}
}

// TestNamedPages: each page of docs that a program, a script or an example names exists.
func TestNamedPages(t *testing.T) {
	named := regexp.MustCompile(`\bdocs/[a-z0-9/-]+\.md\b`)
	seen := 0
	for _, dir := range []string{"cmd", "internal", "test", "bench", "charts", "contrib", "packaging", "scripts", "systemd", "man", "Makefile"} {
		err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.Contains(path, "testdata") {
				return err
			}
			for _, page := range named.FindAllString(readText(t, path), -1) {
				seen++
				if _, err := os.Stat(page); err != nil {
					t.Errorf("%s names %s, which does not exist", path, page)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if seen < 20 {
		t.Errorf("only %d names of pages were found", seen)
	}
}

// TestContributing: the make targets, the directories and the scripts that CONTRIBUTING.md names
// exist.
func TestContributing(t *testing.T) {
	text, makefile := readText(t, "CONTRIBUTING.md"), "\n"+readText(t, "Makefile")
	seen := 0
	for _, match := range regexp.MustCompile("(?m)(?:^|`)make ([a-z-]+)(?:`|$)").FindAllStringSubmatch(text, -1) {
		seen++
		if !strings.Contains(makefile, "\n"+match[1]+":") {
			t.Errorf("the Makefile has no target %s", match[1])
		}
	}
	for _, match := range regexp.MustCompile(`\./(scripts|test|cmd)/[a-z-]+`).FindAllString(text, -1) {
		seen++
		if _, err := os.Stat(match); err != nil {
			t.Error(err)
		}
	}
	if seen < 12 {
		t.Errorf("only %d commands were found", seen)
	}
}
