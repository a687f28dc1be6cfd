package intercept

import (
	"net/netip"
	"slices"
)

// Change is a change of what the daemon wants.
type Change struct{ Old, Next Request }

// Closes reports whether the daemon stops listening on an address: it is not wanted any more, or it
// is translated from now on.
func (c Change) Closes(addr netip.Addr) bool {
	translates := c.Next.Translate && !c.Old.Translate
	return slices.Contains(c.Old.Addrs, addr) && (translates || !slices.Contains(c.Next.Addrs, addr))
}

// Hinders reports whether queries still come to an address that Closes.
func (c Change) Hinders(a Address) bool {
	return c.Closes(a.Address) && (a.Mode == Local || !slices.Contains(c.Next.Addrs, a.Address))
}
