package nodeconfig

import "strings"

// Near is Nearest, or "" if that takes more than most edits.
func Near(text string, names []string, most int) string {
	near := Nearest(text, names)
	if distance(strings.ToLower(text[:min(len(text), maxQuoted)]), strings.ToLower(near)) > most {
		return ""
	}
	return near
}
