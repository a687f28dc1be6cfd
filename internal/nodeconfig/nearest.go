package nodeconfig

import (
	"slices"
	"strings"
)

// Nearest returns the name with the smallest edit distance to text, ignoring case. The first of
// several wins.
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

// leastPrefix is the minimum length of a prefix that stands for a name, in bytes.
const leastPrefix = 3

// Likely returns the name that text probably means, ignoring case, or "" if there is none. It is
// the nearest name with the prefix text, or else the name that text is a typo of, with at most one
// error per three bytes.
func Likely(text string, names []string) string {
	text = strings.ToLower(text[:min(len(text), maxQuoted)])
	if len(text) >= leastPrefix {
		longer := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !strings.HasPrefix(strings.ToLower(name), text) })
		if len(longer) > 0 {
			return Nearest(text, longer)
		}
	}
	if name := Nearest(text, names); name != "" && distance(text, strings.ToLower(name)) <= max(1, len(text)/3) && len(text) > 1 {
		return name
	}
	return ""
}

// distance returns the edit distance of a and b: bytes inserted, removed, replaced, or swapped with
// the next one.
func distance(a, b string) int {
	before, above, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before, above, row = above, row, before
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(above[j+1]+1, row[j]+1, above[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
	}
	return row[len(b)]
}
