package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/test/golden"
)

// TestCommandsPage checks that docs/reference/commands.md has the help of every command, as --help
// prints it.
func TestCommandsPage(t *testing.T) {
	const (
		path  = "../../docs/reference/commands.md"
		begin = "<!-- Written by `go test ./cmd/node-dns -run TestCommandsPage -update`. -->\n"
		end   = "<!-- End of the help. -->\n"
	)
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(page), begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s has no place for the help", path)
	}
	var all strings.Builder
	for _, cmd := range commandsOf(wholeTree()) {
		words := strings.Fields(cmd.CommandPath())
		if cmd.Hidden || len(words) > 1 && slices.Contains([]string{"help", "completion"}, words[1]) {
			continue
		}
		var help strings.Builder
		cmd.SetOut(&help)
		if err := cmd.Help(); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&all, "\n### %s\n\n```\n%s```\n", cmd.CommandPath(), help.String())
	}
	golden.Check(t, path, before+begin+all.String()+"\n"+end+after)
}
