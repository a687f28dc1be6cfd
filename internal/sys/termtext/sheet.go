package termtext

import (
	"io"
	"strings"
	"unicode/utf8"
)

// Sheet is a writer to a terminal. The code that writes to it knows the width and folds long lines,
// so that text stays in its column. Other writers get the same text without line breaks.
type Sheet struct {
	io.Writer
	Columns int // 0 if unknown
}

// leastColumns is the minimum width for folding. Below it, a line would hold only one word.
const leastColumns = 40

// Columns returns the maximum width of a line on w. 0 means unlimited: w is not a Sheet, or its
// width is unknown or too small to fold for.
func Columns(w io.Writer) int {
	if sheet, ok := w.(Sheet); ok && sheet.Columns >= leastColumns {
		return sheet.Columns
	}
	return 0
}

// Fold breaks a line that is wider than this number of columns at its gaps, so that continuation
// lines begin with hang. It breaks no word and nothing left of the width of hang. 0 columns mean
// unlimited. The result does not end in a newline.
func Fold(line, hang string, columns int) string {
	var folded []string
	for columns > 0 && utf8.RuneCountInString(line) > columns {
		end := lastGap(line, utf8.RuneCountInString(hang), columns)
		if end < 0 {
			break // a single word, which the terminal breaks
		}
		folded = append(folded, strings.TrimRight(line[:end], " "))
		line = hang + strings.TrimLeft(line[end:], " ")
	}
	return strings.Join(append(folded, line), "\n")
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
