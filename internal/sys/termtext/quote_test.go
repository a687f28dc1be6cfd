package termtext

import (
	"slices"
	"strings"
	"testing"
)

// FuzzQuote: a shell reads quoted text as one word, unchanged.
func FuzzQuote(f *testing.F) {
	for _, text := range []string{"", "cni0", "a b", "it's", "$(reboot)", "`x`", "a\nb", "a&b", "a;b", `a\032b`, "é", "'"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		quoted := Quote(text)
		var word strings.Builder
		inside, escaped := false, false
		for _, r := range []byte(quoted) {
			switch {
			case escaped:
				escaped = false
				word.WriteByte(r)
			case !inside && r == '\\':
				escaped = true
			case r == '\'':
				inside = !inside
			case !inside && slices.Contains([]byte(" \t\n$`\"&|;<>()*?[#~=%!{}"), r):
				t.Fatalf("%q: unquoted %q in %s", text, r, quoted)
			default:
				word.WriteByte(r)
			}
		}
		if inside || escaped || word.String() != text || quoted == "" {
			t.Errorf("%q is quoted as %s", text, quoted)
		}
	})
}
