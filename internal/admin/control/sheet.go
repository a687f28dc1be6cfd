package control

import (
	"io"
	"strings"
	"unicode/utf8"
)

// Sheet is a writer to a terminal. Text that is wider than the terminal continues on the next line,
// indented to its column. Other writers get the same text without line breaks.
type Sheet struct {
	io.Writer
	Columns int // 0 if unknown
}

// leastColumns is the minimum width for folding. Below it, a line would hold only one word.
const leastColumns = 40

// newPage begins a page on w.
func newPage(w io.Writer) *page {
	p := &page{w: w}
	if sheet, ok := w.(Sheet); ok && sheet.Columns >= leastColumns {
		p.columns = sheet.Columns
	}
	return p
}

// folded writes a line and breaks it if it is too wide. Continuation lines are indented by indent
// columns.
func (p *page) folded(line string, indent int) {
	for p.columns > 0 && utf8.RuneCountInString(line) > p.columns {
		end := lastGap(line, indent, p.columns)
		if end < 0 {
			break // a single word, which the terminal breaks
		}
		p.line("%s", strings.TrimRight(line[:end], " "))
		line = strings.Repeat(" ", indent) + strings.TrimLeft(line[end:], " ")
	}
	p.line("%s", line)
}

// lastGap returns the end of the last word that fits into columns, or of the first word beyond them
// if none fits. It returns -1 if there is no later word.
func lastGap(line string, indent, columns int) int {
	end, column, blank := -1, 0, true
	for i, r := range line {
		if isGap := r == ' '; isGap && !blank && column > indent {
			if column > columns && end >= 0 {
				return end
			}
			end = i
			if column > columns {
				return end
			}
		}
		blank = r == ' '
		column++
	}
	return end
}
