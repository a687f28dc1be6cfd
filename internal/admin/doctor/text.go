package doctor

import (
	"fmt"
	"io"
	"strings"

	"github.com/node-dns/node-dns/internal/sys/termtext"
)

// WriteText prints the report for people, the counts in its last line.
func (r Report) WriteText(w io.Writer) error {
	r = termtext.All(r) // Details have one line each
	var out strings.Builder
	for _, f := range r.Findings {
		fmt.Fprintf(&out, "%-7s%s\n", f.Level.word(), f.What)
		for _, line := range f.Details {
			fmt.Fprintf(&out, "         %s\n", line)
		}
		if f.Fix != "" {
			fmt.Fprintf(&out, "       -> %s\n", f.Fix)
		}
	}
	fmt.Fprintf(&out, "%s, %s, %d ok. Nothing was changed.\n", count(r.Failures, "problem"), count(r.Warnings, "warning"), r.OK)
	_, err := io.WriteString(w, out.String())
	return err
}

func (l Level) word() string {
	if l == Fail {
		return "[FAIL]"
	}
	return "[" + string(l) + "]"
}

func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}
