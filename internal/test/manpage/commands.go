package manpage

import (
	"os"
	"strings"
	"testing"
)

// fence opens a block of commands. Other blocks show output and have no language.
const fence = "```sh\n"

// Commands returns the blocks of shell commands in a Markdown document, in order, one command per
// line, without comments.
func Commands(t testing.TB, path string) [][]string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all [][]string
	for _, part := range strings.Split(string(data), fence)[1:] {
		text, _, closed := strings.Cut(part, "```")
		if !closed {
			t.Fatalf("%s: a block of commands does not end", path)
		}
		all = append(all, commands(text))
	}
	return all
}

// commands returns the commands of a block.
func commands(text string) (block []string) {
	for line := range strings.Lines(text) {
		command, _, _ := strings.Cut(line, " #")
		if command = strings.TrimSpace(command); command != "" && !strings.HasPrefix(command, "#") {
			block = append(block, command)
		}
	}
	return block
}
