package termtext

import (
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestEscape(t *testing.T) {
	for text, want := range map[string]string{
		"":                          "",
		`System eth0 \ "x" ü 漢 😀`:   `System eth0 \ "x" ü 漢 😀`,
		"a\x1b[2J\r\nb\x00\x7f\t":   `a\x1b[2J\x0d\x0ab\x00\x7f\x09`,
		"\u009b\u2028\u202e\ufeff":  `\u009b\u2028\u202e\ufeff`,
		"\xff\xc3(\U000e0001\ufffd": `\xff\xc3(\U000e0001` + "\ufffd",
	} {
		if got := Escape(text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
	if got := Lines("a\tb\nc\x1b", "  "); got != "a\tb\n  c\\x1b" {
		t.Errorf("%q", got)
	}
}

func TestAll(t *testing.T) {
	type inner struct{ Text string }
	type outer struct {
		Text     string
		Slice    []inner
		Strings  []string
		None     []string
		Pointer  *inner
		Nil      *inner
		Time     time.Time
		Number   int
		Duration time.Duration
	}
	now := time.Now()
	given := func() outer {
		return outer{"\x1b", []inner{{"\x1b"}}, []string{"\x1b"}, nil, &inner{"\x1b"}, nil, now, 7, time.Second}
	}
	in := given()
	want := outer{`\x1b`, []inner{{`\x1b`}}, []string{`\x1b`}, nil, &inner{`\x1b`}, nil, now, 7, time.Second}
	if diff := cmp.Diff(want, All(in)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(given(), in); diff != "" {
		t.Errorf("the argument was modified: %s", diff)
	}
}

func FuzzEscape(f *testing.F) {
	f.Add("a\x1b[2J\xff\u202e")
	f.Fuzz(func(t *testing.T, text string) {
		got := Escape(text)
		if !utf8.ValidString(got) || strings.ContainsFunc(got, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Fatalf("%q became %q", text, got)
		}
		if again := Escape(got); again != got {
			t.Fatalf("%q became %q, and that %q", text, got, again)
		}
	})
}

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
