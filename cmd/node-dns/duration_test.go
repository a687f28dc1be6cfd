package main

import (
	"testing"
	"time"
)

func TestDuration(t *testing.T) {
	for _, test := range []struct {
		name, text string
		want       time.Duration
		ok         bool
	}{
		{"seconds", "5", 5 * time.Second, true},
		{"a part of a second", "0.25", 250 * time.Millisecond, true},
		{"Go duration", "1m30s", 90 * time.Second, true},
		{"none", "0", 0, true},
		{"negative", "-1", 0, false},
		{"negative with a unit", "-1s", 0, false},
		{"no number", "nan", 0, false},
		{"infinite", "inf", 0, false},
		{"out of range", "1e300", 0, false},
		{"a word", "soon", 0, false},
		{"empty", "", 0, false},
	} {
		var p patience
		if err := p.Set(test.text); (err == nil) != test.ok || time.Duration(p) != test.want {
			t.Errorf("%s: %q is %v, %v", test.name, test.text, time.Duration(p), err)
		}
	}
}

// FuzzDuration: an accepted value is not negative, and survives printing and parsing.
func FuzzDuration(f *testing.F) {
	for _, text := range []string{"5", "0.25", "1m30s", "-1", "nan", "1e300", "9223372036.854775807", "2562047h47m16.854775807s"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var p, again patience
		if p.Set(text) != nil {
			return
		}
		if err := again.Set(p.String()); err != nil || again != p || p < 0 {
			t.Errorf("%q is %v, and that is %v: %v", text, &p, &again, err)
		}
	})
}
