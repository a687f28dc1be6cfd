package nodeconfig

import "testing"

func TestLikely(t *testing.T) {
	names := []string{"--tcp", "--type-of", "--type", "status", "servers", "query", "log-queries", "wait", "MX", "NXDOMAIN", "AAAA"}
	for _, test := range []struct{ name, text, want string }{
		{"two letters swapped", "stauts", "status"},
		{"extra letter", "querry", "query"},
		{"other letter case", "nxdomain", "NXDOMAIN"},
		{"prefix", "log", "log-queries"},
		{"prefix wins over a name with fewer edits", "--typ", "--type"},
		{"prefix that is too short", "lo", ""},
		{"one wrong letter of two", "mz", "MX"},
		{"one letter", "x", ""},
		{"too many edits", "stop", ""},
		{"no similar name", "xyzzy", ""},
		{"empty", "", ""},
	} {
		if got := Likely(test.text, names); got != test.want {
			t.Errorf("%s: %q is likely %q, want %q", test.name, test.text, got, test.want)
		}
	}
	if got := Likely("status", nil); got != "" {
		t.Errorf("without names: got %q", got)
	}
}

// TestDistance: a swap of neighbors counts as one error, because it is one typing mistake.
func TestDistance(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"abc", "abc", 0}, {"abc", "acb", 1}, {"abc", "abd", 1}, {"abcd", "badc", 2}, {"kitten", "sitting", 3},
	} {
		if got := distance(test.a, test.b); got != test.want {
			t.Errorf("%q and %q: %d, want %d", test.a, test.b, got, test.want)
		}
	}
}
