package demo

import (
	"errors"
	"strings"
	"testing"
)

// TestFailedChecks proves that a failed check is printed and fails the command, even if other
// checks succeed.
func TestFailedChecks(t *testing.T) {
	errSocket := errors.New("no socket")
	for _, row := range []struct {
		name  string
		tell  func(*story)
		fails bool
		says  string
	}{
		{"all hold", func(s *story) { s.expect("answer", "192.0.2.1", "192.0.2.1"); s.must("asking", nil) }, false, "   ok      answer: 192.0.2.1\n\nAll 1 checks passed."},
		{"one is wrong", func(s *story) { s.expect("answer", "NXDOMAIN", "192.0.2.1") }, true, "   FAILED  answer: got NXDOMAIN, expected 192.0.2.1\n"},
		{"another type is wrong", func(s *story) { s.expect("hits", uint64(1), 1) }, true, "   FAILED  hits: got 1, expected 1\n"},
		{"a step fails", func(s *story) { s.must("asking", errSocket); s.expect("answer", 1, 1) }, true, "   FAILED  asking: no socket\n   ok      answer: 1\n"},
	} {
		t.Run(row.name, func(t *testing.T) {
			var out strings.Builder
			s := &story{Config: Config{Out: &out}}
			row.tell(s)
			err := s.end()
			if errors.Is(err, errFailed) != row.fails || !strings.Contains(out.String(), row.says) {
				t.Errorf("got %v, output:\n%s", err, &out)
			}
		})
	}
}
