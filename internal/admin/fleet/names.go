package fleet

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxPatterns is the number of patterns, or of names, that stand for many names.
const maxPatterns = 4

// nameSet are the names of all nodes, sorted, to tell which of them a pattern stands for.
type nameSet []string

// Summary describes some of the nodes: "all nodes", their names, or patterns such as
// "rack-7-* (12 of 40)". names must be sorted.
func (all nameSet) summary(names []string) string {
	switch {
	case len(names) == len(all) && len(all) > 1:
		return "all nodes"
	case len(names) <= maxPatterns:
		return strings.Join(names, ", ")
	}
	patterns := patternsOf(names)
	if patterns == nil {
		return fmt.Sprintf("%s and %s more", strings.Join(names[:maxPatterns-1], ", "), number(len(names)-(maxPatterns-1)))
	}
	var words []string
	for _, p := range patterns {
		if len(p.names) == 1 {
			words = append(words, p.names[0])
			continue
		}
		word := p.prefix + "*"
		if matching := all.withPrefix(p.prefix); matching != len(p.names) {
			word += fmt.Sprintf(" (%s of %s)", number(len(p.names)), number(matching))
		}
		words = append(words, word)
	}
	return strings.Join(words, ", ")
}

func (all nameSet) withPrefix(prefix string) int {
	n := 0
	for _, name := range all {
		if strings.HasPrefix(name, prefix) {
			n++
		}
	}
	return n
}

// pattern stands for the names with a prefix.
type pattern struct {
	prefix string
	names  []string
}

// patternsOf returns the longest prefixes, up to a separator, of which at most maxPatterns cover
// all names. It returns nil if the names have too little in common.
func patternsOf(names []string) []pattern {
	patterns := []pattern{{"", names}}
	for {
		longer := refine(patterns)
		if len(longer) > maxPatterns || slices.EqualFunc(longer, patterns, func(a, b pattern) bool { return a.prefix == b.prefix }) {
			break
		}
		patterns = longer
	}
	if patterns[0].prefix == "" {
		return nil
	}
	return patterns
}

// refine extends each prefix by the next part of the names, if all of its names have one.
func refine(patterns []pattern) (longer []pattern) {
	for _, p := range patterns {
		var parts []pattern
		for _, name := range p.names {
			end := partEnd(name[len(p.prefix):])
			if end < 0 {
				parts = []pattern{p}
				break
			}
			prefix := name[:len(p.prefix)+end]
			if n := len(parts); n > 0 && parts[n-1].prefix == prefix {
				parts[n-1].names = append(parts[n-1].names, name)
			} else {
				parts = append(parts, pattern{prefix, []string{name}})
			}
		}
		longer = append(longer, parts...)
	}
	return longer
}

// partEnd returns the length of the first part of a name, with its separator, or -1 if it is the
// last one. A number after a letter is a part of its own, as in web01.
func partEnd(name string) int {
	for i := range len(name) {
		switch {
		case name[i] == '-' || name[i] == '.':
			return i + 1
		case i > 0 && isDigit(name[i]) && !isDigit(name[i-1]):
			return i
		}
	}
	return -1
}

func isDigit(b byte) bool { return '0' <= b && b <= '9' }

// number formats a number with separators: 4,988.
func number(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
