package helper

import (
	"errors"
	"fmt"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"

	"github.com/node-dns/node-dns/internal/dns/identity"
	"github.com/node-dns/node-dns/internal/intercept"
)

// way is how an address is intercepted, decided from where it is on this host.
type way struct {
	served
	probe netip.Addr // the address at which node-dns must answer
	add   bool       // the address must become local first
	why   string     // why it cannot be intercepted; empty if it can
}

// wayFor decides how to intercept an address. It is pure.
func wayFor(addr netip.Addr, at place, request intercept.Request) way {
	w := way{served: served{addr: addr, mode: intercept.Local}, probe: addr, add: at.link == ""}
	switch {
	case at.link == ipvs:
		w.mode, w.node = intercept.Translated, request.Node(addr)
		w.probe = w.node
		if !w.node.IsValid() {
			w.why = "IPVS serves it, and node-dns answers at no other address of its family"
		}
	case !at.isOurs():
		w.why = fmt.Sprintf("the link %s of this host has it", at.link)
	}
	return w
}

// silence returns why an answer to a probe does not show that node-dns serves the address, or "" if
// it does. It is pure.
func silence(at netip.Addr, by string, err error) string {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Sprintf("node-dns does not answer at %s within %v", at, probeTimeout)
	case errors.Is(err, unix.ECONNREFUSED):
		return fmt.Sprintf("node-dns does not listen on %s", at)
	case err != nil:
		return fmt.Sprintf("cannot query %s: %v", at, err)
	case by == "":
		return "another nameserver answers at " + at.String()
	case !identity.IsNodeDNS(by):
		return fmt.Sprintf("another nameserver answers at %s: %s", at, by)
	}
	return ""
}
