package manpage

import (
	"os"
	"strings"
	"testing"
)

// Section is the content below a second-level heading ("## ") in a Markdown document.
type Section struct {
	Title  string
	Blocks []Block
}

// Block is a block of commands, or one without a language, which shows output. Blocks in other
// languages are ignored.
type Block struct {
	Commands []string // in the form of Commands
	Screen   string
}

// Sections returns the sections of the document in order.
func Sections(t testing.TB, path string) []Section {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all []Section
	for _, text := range strings.Split("\n"+string(data), "\n## ")[1:] {
		title, rest, _ := strings.Cut(text, "\n")
		section := Section{Title: title}
		for i, part := range strings.Split(rest, "```") {
			language, text, _ := strings.Cut(part, "\n")
			switch {
			case i%2 == 0:
			case language == "sh":
				section.Blocks = append(section.Blocks, Block{Commands: commands(text)})
			case language == "":
				section.Blocks = append(section.Blocks, Block{Screen: text})
			}
		}
		all = append(all, section)
	}
	return all
}
