package nodeconfig

import "strings"

// Nearest returns the one of names that takes the fewest edits to become text, letter case aside; the first of several.
func Nearest(text string, names []string) string {
	text = strings.ToLower(text[:min(len(text), maxQuoted)])
	best, fewest := "", -1
	for _, name := range names {
		if n := distance(text, strings.ToLower(name)); fewest < 0 || n < fewest {
			best, fewest = name, n
		}
	}
	return best
}

// Near is Nearest, or "" if that takes more than most edits.
func Near(text string, names []string, most int) string {
	near := Nearest(text, names)
	if distance(strings.ToLower(text[:min(len(text), maxQuoted)]), strings.ToLower(near)) > most {
		return ""
	}
	return near
}

// distance is Levenshtein's, in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j]+1, row[j+1]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
