package view

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/node-dns/node-dns/internal/admin/control"
)

// TestNoteRedirected: an address keeps its time until it changes.
func TestNoteRedirected(t *testing.T) {
	addr, then, now := netip.MustParseAddr("10.96.0.10"), time.Unix(1, 0), time.Unix(2, 0)
	on, off := control.Intercepted{Address: "10.96.0.10", On: true, Since: then}, control.Intercepted{Address: "10.96.0.10", Since: then, Why: "old"}
	for _, test := range []struct {
		name   string
		before []control.Intercepted
		why    string
		want   control.Intercepted
	}{
		{"first", nil, "", control.Intercepted{Address: "10.96.0.10", On: true, Since: now}},
		{"still on", []control.Intercepted{on}, "", on},
		{"off", []control.Intercepted{on}, "silent", control.Intercepted{Address: "10.96.0.10", Since: now, Why: "silent"}},
		{"still off, for another reason", []control.Intercepted{off}, "silent", control.Intercepted{Address: "10.96.0.10", Since: then, Why: "silent"}},
		{"on again", []control.Intercepted{off}, "", control.Intercepted{Address: "10.96.0.10", On: true, Since: now}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if d := cmp.Diff(test.want, noteRedirected(test.before, addr, test.why, now)); d != "" {
				t.Error(d)
			}
		})
	}
}
