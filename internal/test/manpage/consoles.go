package manpage

import (
	"os"
	"strings"
	"testing"
)

// console opens a block that shows a command, after "$ ", and its output.
const console = "```console\n"

// Console is a console block.
type Console struct {
	Command string
	Output  string // every line ends in LF
}

// Consoles returns the console blocks of a Markdown document in order.
func Consoles(t testing.TB, path string) []Console {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all []Console
	for _, part := range strings.Split(string(data), console)[1:] {
		text, _, closed := strings.Cut(part, "```")
		command, output, more := strings.Cut(text, "\n")
		command, isCommand := strings.CutPrefix(command, "$ ")
		if !closed || !more || !isCommand {
			t.Fatalf("%s: a console block does not end, or does not begin with a command:\n%s", path, text)
		}
		all = append(all, Console{command, output})
	}
	return all
}
