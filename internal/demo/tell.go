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

// must reports an error of a step. A success is silent, because later checks cover its result.
func (s *story) must(what string, err error) {
	if err != nil {
		s.checks++
		s.failed++
		s.say("   FAILED  %s: %v", what, err)
	}
}

// expect checks that got equals want.
func (s *story) expect(what string, got, want any) {
	s.checks++
	if got != want {
		s.failed++
		s.say("   FAILED  %s: got %v, expected %v", what, got, want)
		return
	}
	s.say("   ok      %s%s", what, shown(want))
}

// end prints the number of checks and returns errFailed if any failed.
func (s *story) end() error {
	if s.failed > 0 {
		return fmt.Errorf("%w: %d of %d checks", errFailed, s.failed, s.checks)
	}
	s.say("\nAll %d checks passed. With --serve the daemon keeps running for your own queries.", s.checks)
	return nil
}

// shown formats a value that is short enough for one line.
func shown(value any) string {
	text := fmt.Sprint(value)
	if strings.Contains(text, "\n") {
		return ""
	}
	return ": " + text
}

// indented is a writer that indents every line.
type indented struct{ w io.Writer }

func (i indented) Write(text []byte) (int, error) {
	for line := range bytes.Lines(text) {
		if _, err := fmt.Fprintf(i.w, "      | %s", line); err != nil {
			return 0, err
		}
	}
	return len(text), nil
}
