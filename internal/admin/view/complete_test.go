package view

import (
	"fmt"
	"iter"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/node-dns/node-dns/internal/admin/control"
)

func TestBeginning(t *testing.T) {
	if diff := cmp.Diff([]string{"web", "www"}, beginning(slices.Values([]string{"www", "mail", "web", "www", "Www"}), "w")); diff != "" {
		t.Error(diff)
	}
	if got := beginning(slices.Values([]string{"a"}), "b"); got == nil || len(got) > 0 {
		t.Errorf("got %#v, want an empty list for JSON", got)
	}
}

// TestBeginningIsBounded proves that the walk over a million names stops at the limit of the
// answer.
func TestBeginningIsBounded(t *testing.T) {
	asked := 0
	var endless iter.Seq[string] = func(yield func(string) bool) {
		for asked = 1; yield(fmt.Sprint(asked)); asked++ {
		}
	}
	if got := beginning(endless, ""); len(got) != control.MaxCompletions || asked != control.MaxCompletions {
		t.Errorf("got %d words after %d candidates", len(got), asked)
	}
}
