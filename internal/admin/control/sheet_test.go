package control

import (
	"io"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/node-dns/node-dns/internal/sys/termtext"
	"github.com/node-dns/node-dns/internal/test/golden"
)

func TestSheet(t *testing.T) {
	for name, columns := range map[string]int{"80": 80, "50": 50} {
		var status, servers strings.Builder
		s := busy()
		if err := s.WriteText(termtext.Sheet{Writer: &status, Columns: columns}); err != nil {
			t.Fatal(err)
		}
		if err := s.ServerList().WriteText(termtext.Sheet{Writer: &servers, Columns: columns}); err != nil {
			t.Fatal(err)
		}
		golden.Check(t, "testdata/sheet-status-"+name+".txt", status.String())
		golden.Check(t, "testdata/sheet-servers-"+name+".txt", servers.String())
		for line := range strings.Lines(status.String() + servers.String()) {
			line = strings.TrimSuffix(line, "\n")
			if words := strings.Fields(line); utf8.RuneCountInString(line) > columns && len(words) > 1 {
				t.Errorf("%s columns: got a line with %d: %q", name, utf8.RuneCountInString(line), line)
			}
		}
	}
}

func TestFolded(t *testing.T) {
	for _, test := range []struct {
		name, line string
		indent     int
		want       string
	}{
		{"short", "a b", 2, "a b\n"},
		{"at a gap", strings.Repeat("abcd ", 9), 2, strings.TrimSpace(strings.Repeat("abcd ", 8)) + "\n  abcd \n"},
		{"in its column", "name        " + strings.Repeat("x", 20) + "   " + strings.Repeat("y", 20), 12, "name        " + strings.Repeat("x", 20) + "\n            " + strings.Repeat("y", 20) + "\n"},
		{"a word wider than the sheet", "a " + strings.Repeat("x", 50) + " b", 2, "a " + strings.Repeat("x", 50) + "\n  b\n"},
		{"one word", strings.Repeat("x", 50), 2, strings.Repeat("x", 50) + "\n"},
		{"multi-byte letters", strings.Repeat("ü", 20) + " " + strings.Repeat("ü", 20), 2, strings.Repeat("ü", 20) + "\n  " + strings.Repeat("ü", 20) + "\n"},
	} {
		var out strings.Builder
		p := newPage(termtext.Sheet{Writer: &out, Columns: 40})
		p.folded(test.line, test.indent)
		if p.err != nil || out.String() != test.want {
			t.Errorf("%s: got error %v and\n%q, want\n%q", test.name, p.err, out.String(), test.want)
		}
	}
}

// narrow returns a page as a terminal of 60 columns shows it. It fails if folding loses a word.
func narrow(t *testing.T, write func(io.Writer) error) string {
	t.Helper()
	var wide, folded strings.Builder
	for w, columns := range map[*strings.Builder]int{&wide: 0, &folded: 60} {
		if err := write(termtext.Sheet{Writer: w, Columns: columns}); err != nil {
			t.Fatal(err)
		}
	}
	// A table that is too wide has no header and no empty cells.
	words := func(text string) []string {
		return slices.DeleteFunc(strings.Fields(text), func(word string) bool { return word == ";;" || word == "-" })
	}
	left := words(folded.String())
	for line := range strings.Lines(wide.String()) {
		if strings.HasPrefix(line, "#  NAME") {
			continue
		}
		for _, word := range words(line) {
			i := slices.Index(left, word)
			if i < 0 {
				t.Errorf("folding lost %q:\n%s", word, folded.String())
				continue
			}
			left = slices.Delete(left, i, i+1)
		}
	}
	return folded.String()
}
