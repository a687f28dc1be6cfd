package control

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/node-dns/node-dns/internal/sys/termtext"
)

// page writes aligned rows and keeps the first error.
type page struct {
	w       io.Writer
	columns int // maximum width of a line; 0 means unlimited
	err     error
}

// newPage begins a page on w.
func newPage(w io.Writer) *page { return &page{w: w, columns: termtext.Columns(w)} }

func (p *page) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}

// folded writes a line and breaks it if it is too wide. Continuation lines are indented by indent
// columns.
func (p *page) folded(line string, indent int) { p.hanging(line, strings.Repeat(" ", indent)) }

// hanging is folded with continuation lines that begin with hang.
func (p *page) hanging(line, hang string) { p.line("%s", termtext.Fold(line, hang, p.columns)) }

// row prints a name and text, and aligns the continuation lines of the text with its first line.
func (p *page) row(name, text string) {
	for i, line := range strings.Split(text, "\n") {
		if i > 0 {
			name = ""
		}
		p.folded(fmt.Sprintf("%-12s%s", name, line), 12)
	}
}

// mark prints text after a mark and indents its continuation lines. The text may be untrusted.
func (p *page) mark(mark, text string) {
	for line := range strings.SplitSeq(mark+termtext.Lines(text, "    "), "\n") {
		p.folded(line, 4)
	}
}

// orNone joins words. Without words it is "none".
func orNone(words []string, separator string) string {
	return cmp.Or(strings.Join(words, separator), "none")
}

// milliseconds prints two decimals below 10 ms, where they matter, and none above.
func milliseconds(d time.Duration) string {
	ms := float64(d) / float64(time.Millisecond)
	if ms < 9.995 { // larger values would be printed as 10.00
		return fmt.Sprintf("%.2fms", ms)
	}
	return fmt.Sprintf("%.0fms", ms)
}

// age prints a duration in its two largest units: 3d 4h, 2m 5s, 12s. A negative one (the clock was
// set back) is 0s.
func age(d time.Duration) string {
	d = max(d, 0)
	units := []struct {
		name string
		size time.Duration
	}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}}
	for i, unit := range units {
		if d < unit.size && i < len(units)-1 {
			continue
		}
		text := fmt.Sprintf("%d%s", d/unit.size, unit.name)
		if i < len(units)-1 {
			next := units[i+1]
			text += fmt.Sprintf(" %d%s", d%unit.size/next.size, next.name)
		}
		return text
	}
	return "0s"
}
