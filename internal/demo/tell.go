package demo

import (
	"bytes"
	"fmt"
	"io"
	"strings"
)

func (s *story) say(format string, args ...any) { fmt.Fprintf(s.Out, format+"\n", args...) }

func (s *story) title(text string) { s.say("\n== %s", text) }

// show prints a file's text.
func (s *story) show(text string) { fmt.Fprint(indented{s.Out}, text) }

// check is a step that must not fail.
func (s *story) check(what string, err error) {
	s.step++
	if err != nil {
		s.failed++
		s.say("   FAILED  %s: %v", what, err)
		return
	}
	s.say("   ok      %s", what)
}

// expect is a step that must come out as it should.
func (s *story) expect(what string, got, want any) {
	s.step++
	if got != want {
		s.failed++
		s.say("   FAILED  %s: got %v, expected %v", what, got, want)
		return
	}
	s.say("   ok      %s%s", what, shown(want))
}

// shown is a value short enough to print behind what it is.
func shown(value any) string {
	text := fmt.Sprint(value)
	if value == true || strings.Contains(text, "\n") {
		return ""
	}
	return ": " + text
}

// indented sets every line it writes apart from the story.
type indented struct{ w io.Writer }

func (i indented) Write(text []byte) (int, error) {
	for line := range bytes.Lines(text) {
		if _, err := fmt.Fprintf(i.w, "      | %s", line); err != nil {
			return 0, err
		}
	}
	return len(text), nil
}
