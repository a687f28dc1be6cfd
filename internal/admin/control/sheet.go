package control

import (
	"io"
	"strings"
	"unicode/utf8"
)

// A Sheet is a writer to a terminal. What is wider than its columns goes on in the next line, below the column that it is of. The text of a
// page is the same on any other writer.
type Sheet struct {
	io.Writer
	Columns int // 0: not known
}

// leastColumns is the width from which on a page is folded: below it, a line would have a word.
const leastColumns = 40

// newPage begins a page on w.
func newPage(w io.Writer) *page {
	p := &page{w: w}
	if sheet, ok := w.(Sheet); ok && sheet.Columns >= leastColumns {
		p.columns = sheet.Columns
	}
	return p
}

// folded writes a line that may be too wide. Its further lines are indented by so many columns.
func (p *page) folded(line string, indent int) {
	for p.columns > 0 && utf8.RuneCountInString(line) > p.columns {
		end := lastGap(line, indent, p.columns)
		if end < 0 {
			break // one word, which the terminal breaks
		}
		p.line("%s", strings.TrimRight(line[:end], " "))
		line = strings.Repeat(" ", indent) + strings.TrimLeft(line[end:], " ")
	}
	p.line("%s", line)
}

// lastGap is where the last word ends that fits into the columns, or the first one behind them if none fits; -1: it is the last one.
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
