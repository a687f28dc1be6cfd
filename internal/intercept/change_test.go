package intercept

import (
	"net/netip"
	"slices"
	"testing"
)

// TestChange: which addresses must not be intercepted any more before the daemon closes them.
func TestChange(t *testing.T) {
	service, nodeLocal := addrs("10.96.0.10"), addrs("169.254.20.10")
	for _, test := range []struct {
		name      string
		old, next []netip.Addr
		closes    bool          // 10.96.0.10
		hinders   map[Mode]bool // by how it is intercepted
	}{
		{"the same", service, service, false, map[Mode]bool{Local: false, Translated: false}},
		{"none any more", service, nil, true, map[Mode]bool{Local: true, Translated: true}},
		{"another one", nodeLocal, slices.Concat(nodeLocal, service), false, map[Mode]bool{Local: false, Translated: false}},
		{"translated from now on", service, slices.Concat(service, nodeLocal), true, map[Mode]bool{Local: true, Translated: false}},
		{"translated as before", slices.Concat(service, nodeLocal), slices.Concat(nodeLocal, service), false, map[Mode]bool{Local: false, Translated: false}},
		{"served as before", slices.Concat(service, nodeLocal), service, false, map[Mode]bool{Local: false, Translated: false}},
	} {
		t.Run(test.name, func(t *testing.T) {
			change := Change{Request{Addrs: test.old, Translate: slices.Contains(test.old, nodeLocal[0])}, Request{Addrs: test.next, Translate: slices.Contains(test.next, nodeLocal[0])}}
			if got := change.Closes(service[0]); got != test.closes {
				t.Errorf("closes: %v, want %v", got, test.closes)
			}
			for mode, want := range test.hinders {
				if got := change.Hinders(Address{Address: service[0], On: true, Mode: mode}); got != want {
					t.Errorf("hinders if %s: %v, want %v", mode, got, want)
				}
			}
		})
	}
}
