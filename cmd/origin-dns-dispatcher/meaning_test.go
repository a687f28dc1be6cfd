package main_test

import (
	"slices"
	"strings"
)

const legacyWatermark = "# nameserver updated by /etc/NetworkManager/dispatcher.d/99-origin-dns.sh"

// meaning is what a resolv.conf means to libc (resolv.conf(5): a keyword starts the line; the last
// of search and domain wins), plus the lines without meaning, which must be kept.
type meaning struct {
	Watermarked bool
	Nameservers []string
	Search      []string
	Options     []string
	Others      []string // all other lines in order, without the watermark
}

// meaningOf parses a resolv.conf. kept are comments that mention the script but are not the
// watermark.
func meaningOf(text string, kept []string) meaning {
	var m meaning
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		keyword, words := "", strings.Fields(line)
		if len(words) > 0 && strings.HasPrefix(line, words[0]) {
			keyword, words = words[0], words[1:]
		}
		switch {
		case keyword == "nameserver":
			m.Nameservers = append(m.Nameservers, strings.Join(words, " "))
		case keyword == "search":
			m.Search = words
		case keyword == "options":
			m.Options = append(m.Options, words...)
		case isWatermark(line) && !slices.Contains(kept, line):
			m.Watermarked = true
		default:
			if keyword == "domain" {
				m.Search = words
			}
			m.Others = append(m.Others, line)
		}
	}
	return m
}

// isWatermark follows the cases' conventions: any comment line that contains the script's name. The
// product decides the wording.
func isWatermark(line string) bool {
	return strings.HasPrefix(line, "#") && strings.Contains(line, "99-origin-dns.sh")
}

// ownComments returns the comments in the original resolv.conf that mention the script without
// being its watermark.
func ownComments(text string) []string {
	var lines []string
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		if isWatermark(line) && line != legacyWatermark {
			lines = append(lines, line)
		}
	}
	return lines
}
