package golden

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// recorder is a test that only records its errors.
type recorder struct {
	testing.TB
	told string
}

func (r *recorder) Helper()                           {}
func (r *recorder) Errorf(format string, args ...any) { r.told += fmt.Sprintf(format, args...) }
func (r *recorder) Fatal(args ...any)                 { panic(fmt.Sprint(args...)) }

func TestCheck(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "a.txt")
	defer func(before bool) { *update = before }(*update)
	for _, step := range []struct {
		name, got, want string
		update          bool
	}{
		{name: "missing", got: "a\n", want: "no such file"},
		{name: "written", got: "a\n", update: true},
		{name: "the same", got: "a\n"},
		{name: "different", got: "a\nb", want: "a.txt (-want +got"},
		{name: "updated", got: "a\nb", update: true},
		{name: "the same after the update", got: "a\nb"},
	} {
		r := &recorder{TB: t}
		*update = step.update
		func() {
			defer func() {
				if p := recover(); p != nil {
					r.told = fmt.Sprint(p)
				}
			}()
			Check(r, path, step.got)
		}()
		if !strings.Contains(r.told, step.want) || (r.told == "") != (step.want == "") {
			t.Errorf("%s: told %q, want %q", step.name, r.told, step.want)
		}
	}
}

func TestWrap(t *testing.T) {
	const text, want = " a bc\nd eeeee f ", "a bc\nd\neeeee\nf"
	if got := Wrap(text, 4); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := Wrap(" ", 4); got != "" {
		t.Errorf("got %q for a text without words", got)
	}
}
