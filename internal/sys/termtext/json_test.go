package termtext

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"
)

// FuzzJSON: the escaped JSON has the same value, and no character that controls a terminal.
func FuzzJSON(f *testing.F) {
	for _, text := range []string{"a", "\x1b[2J\x7f", "\u009b\u202e\u2028", "\U000e0001", "\xff"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		text = strings.ToValidUTF8(text, "\ufffd")
		plain, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		got := JSON(plain)
		if strings.ContainsFunc(got, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%q has an unprintable character", got)
		}
		var again string
		if err := json.Unmarshal([]byte(got), &again); err != nil || again != text {
			t.Errorf("%q became %q: %v", text, again, err)
		}
	})
}
