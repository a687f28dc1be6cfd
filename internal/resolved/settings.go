package resolved

import (
	"iter"
	"strings"
)

// settings are the keys of [Resolve] and their values, in order. A line that ends in a backslash goes on in the next one
// that is no comment (systemd.syntax(7)).
func settings(text string) iter.Seq2[string, string] {
	return func(yield func(key, value string) bool) {
		section, begun := "", ""
		for line := range strings.Lines(text) {
			line = strings.TrimSpace(line)
			if strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";") {
				continue
			}
			line, begun = begun+line, ""
			if rest, ok := strings.CutSuffix(line, `\`); ok {
				begun = rest + " "
				continue
			}
			if strings.HasPrefix(line, "[") {
				section = line
				continue
			}
			key, value, ok := strings.Cut(line, "=")
			if ok && section == "[Resolve]" && !yield(strings.TrimSpace(key), strings.TrimSpace(value)) {
				return
			}
		}
	}
}
