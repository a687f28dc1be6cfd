// Package manpage parses our documentation, so that tests can compare it with the programs and run
// its examples. The man pages are in mdoc(7), whose macros mark the meaning of a word.
package manpage

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// Page is a man page.
type Page struct {
	Items    []Item
	Examples []string // blocks of literal text (.Bd -literal), in order
}

// Item is the subject of an entry in a tagged list.
type Item struct {
	Section string   // its .Sh
	Macro   string   // first macro of its tag: Cm is a command, Fl a flag, Ic a key; "" is plain text
	Names   []string // words after that macro, up to the next one; flags without hyphens
	Under   *Item    // entry that contains its list, or nil
}

// Read parses the page at path.
func Read(t testing.TB, path string) Page {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return parse(string(data))
}

func parse(text string) Page {
	var p Page
	var lists []*Item // current entry of each open list; nil if there is none yet
	section, literal := "", false
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		switch {
		case strings.HasPrefix(line, ".Ed"):
			literal = false
		case literal:
			p.Examples[len(p.Examples)-1] += line
		case strings.HasPrefix(line, ".Bd -literal"):
			literal = true
			p.Examples = append(p.Examples, "")
		case strings.HasPrefix(line, ".Sh "):
			section = strings.Join(words[1:], " ")
		case strings.HasPrefix(line, ".Bl "):
			lists = append(lists, nil)
		case strings.HasPrefix(line, ".El"):
			lists = lists[:len(lists)-1]
		case strings.HasPrefix(line, ".It ") && len(lists) > 0:
			item := parseTag(words[1:])
			item.Section = section
			if len(lists) > 1 {
				item.Under = lists[len(lists)-2]
			}
			lists[len(lists)-1] = &item
			p.Items = append(p.Items, item)
		}
	}
	return p
}

// macros are those that our tags may have.
var macros = []string{"Ar", "Cm", "Dv", "Ev", "Fl", "Ic", "Li", "No", "Op", "Pa", "Sy"}

func parseTag(words []string) Item {
	var item Item
	if slices.Contains(macros, words[0]) {
		item.Macro, words = words[0], words[1:]
	}
	for _, word := range words {
		if slices.Contains(macros, word) {
			break
		}
		if item.Macro == "Fl" {
			word = strings.TrimPrefix(word, "-")
		}
		if word != "," {
			item.Names = append(item.Names, word)
		}
	}
	return item
}

// Names returns the sorted names of the entries in a section whose tag begins with macro and that
// are inside an entry named under; "" means inside no entry.
func (p Page) Names(section, macro, under string) []string {
	var names []string
	for _, item := range p.Items {
		inner := item.Under != nil && slices.Contains(item.Under.Names, under)
		if item.Section == section && item.Macro == macro && (inner || under == "" && item.Under == nil) {
			names = append(names, item.Names...)
		}
	}
	slices.Sort(names)
	return names
}
