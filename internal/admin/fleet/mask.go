package fleet

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// masked is a text whose numbers and times are left out, so that texts of several nodes that differ
// only there are equal. Values in between the words stay in slots.
type masked struct {
	words []string // with slot in place of a value
	slots []string // the values
}

// slot stands for a value in the words. It is not valid UTF-8, so it is in no text.
const slot = "\xff"

var (
	count    = regexp.MustCompile(`^\d{1,15}(\.\d{1,6})?%?$`)
	duration = regexp.MustCompile(`^(\d{1,9}(\.\d{1,9})?(ns|µs|us|ms|s|m|h|d))+$`)
	clock    = regexp.MustCompile(`^(\d{4}-\d\d-\d\dT)?\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)?$`)
)

// mask leaves out the values of a text, and the names and addresses of the node itself and its pod.
func mask(text string, r Result) masked {
	var m masked
	for word := range strings.SplitSeq(text, " ") {
		core := strings.Trim(word, `"(),;:.!?`)
		before, after, _ := strings.Cut(word, core)
		switch {
		case core == "":
		case count.MatchString(core), duration.MatchString(core), clock.MatchString(core):
			m.slots = append(m.slots, core)
			word = before + slot + after
		default:
			word = before + ownName(core, r) + after
		}
		m.words = append(m.words, word)
	}
	return m
}

// ownName replaces the names of the node and its pod in a word, and its addresses, with or without
// a port.
func ownName(word string, r Result) string {
	switch word {
	case r.Node:
		return "NODE"
	case r.Pod:
		return "POD"
	}
	host, port := word, ""
	if i := strings.LastIndexByte(word, ':'); i == strings.IndexByte(word, ':') && i > 0 || strings.HasPrefix(word, "[") && i > strings.IndexByte(word, ']') {
		host, port = word[:i], word[i:]
	}
	if slices.Contains(r.addresses, strings.Trim(host, "[]")) {
		return "NODE_IP" + port
	}
	return word
}

// key identifies equal texts.
func (m masked) key() string { return strings.Join(m.words, " ") }

// ranges returns the text with the ranges between the values of two slots of each: "2 of 3-12
// queries failed". low and high must have the same key as m.
func (m masked) ranges(low, high []string) string {
	var out strings.Builder
	i := 0
	for part := range strings.SplitSeq(m.key(), slot) {
		if out.WriteString(part); i < len(low) {
			out.WriteString(low[i])
			if high[i] != low[i] {
				out.WriteString("-" + high[i])
			}
		}
		i++
	}
	return out.String()
}

// compareValues orders two values of the same slot: numbers and durations by size.
func compareValues(a, b string) int {
	x, ok := size(a)
	y, also := size(b)
	if ok && also {
		return cmp.Or(cmp.Compare(x, y), cmp.Compare(a, b))
	}
	return cmp.Compare(a, b)
}

func size(value string) (float64, bool) {
	if n, err := strconv.ParseFloat(strings.TrimSuffix(value, "%"), 64); err == nil {
		return n, true
	}
	days := 0.0
	if before, after, ok := strings.Cut(value, "d"); ok {
		n, err := strconv.ParseFloat(before, 64)
		if err != nil {
			return 0, false
		}
		days, value = n, cmp.Or(after, "0s")
	}
	d, err := time.ParseDuration(value)
	return days*24*float64(time.Hour) + float64(d), err == nil
}
