package helper

import (
	"fmt"
	"net/netip"

	"github.com/node-dns/node-dns/internal/intercept"
)

// way is how an address is intercepted, decided from where it is on this host.
type way struct {
	served
	probe   netip.Addr // the address at which node-dns must answer
	hold    bool       // our link must have the address
	add     bool       // it must be added to our link
	standby bool       // NodeLocal DNSCache answers until it removes its rules
	why     string     // why it cannot be intercepted; empty if it can
}

// wayFor decides how to intercept an address. It is pure.
//
// NodeLocal DNSCache removes its link, then its rules, and then ends (TeardownNetworking of
// kubernetes/dns). Our link keeps its addresses local in between, so that it answers until its
// rules are gone and the translation applies.
func wayFor(addr netip.Addr, at place, request intercept.Request) way {
	w := way{served: served{addr: addr, mode: intercept.Local}, probe: addr}
	switch {
	case at.link == ipvs:
		w.translate(request, "IPVS serves it")
	case at.link == nodelocal:
		w.hold, w.standby = true, true
		w.translate(request, "the link nodelocaldns of this host has it")
	case !at.isOurs():
		w.why = fmt.Sprintf("the link %s of this host has it", at.link)
	case at.neighbor != "":
		w.why = fmt.Sprintf("another host has it, on the network of the link %s", at.neighbor)
	case request.Translate:
		w.hold = true
		w.translate(request, "NodeLocal DNSCache may return")
	default:
		w.hold = true
	}
	w.hold = w.hold && w.why == ""
	w.add = w.hold && !at.ours
	return w
}

func (w *way) translate(request intercept.Request, because string) {
	w.mode, w.node = intercept.Translated, request.Node(w.addr)
	if w.probe = w.node; !w.node.IsValid() {
		w.why, w.standby = because+", and node-dns answers at no other address of its family", false
	}
}
