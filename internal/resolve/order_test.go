package resolve

import (
	"os"
	"regexp"
	"slices"
	"testing"
)

// TestPageHasOrder: the architecture page lists the handlers in the actual order.
func TestPageHasOrder(t *testing.T) {
	page, err := os.ReadFile("../../docs/explanation/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	table := regexp.MustCompile(`(?s)\| handler \| what it answers \|\n\|---\|---\|\n(.*?)\n\n`).FindSubmatch(page)
	if table == nil {
		t.Fatal("the page has no table of handlers")
	}
	var got, want []string
	for _, row := range regexp.MustCompile(`(?m)^\| (.*?) \|`).FindAllStringSubmatch(string(table[1]), -1) {
		got = append(got, row[1])
	}
	for _, h := range order {
		want = append(want, h.name)
	}
	if !slices.Equal(got, want) {
		t.Errorf("the page has %q, want %q", got, want)
	}
}
