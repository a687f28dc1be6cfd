package manpage

import (
	"os"
	"strings"
	"testing"
)

// Section is what stands below a heading of the second level ("## ") in a Markdown document.
type Section struct {
	Title  string
	Blocks []Block
}

// Block is one of commands, or one without a language, which shows output. Those of other languages are left out.
type Block struct {
	Commands []string // as Commands has them
	Screen   string
}

// Sections are those of the document, in order.
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
