package helper

import (
	"errors"
	"net/netip"
	"slices"
	"time"

	"github.com/node-dns/node-dns/internal/intercept"
)

// look decides the way of each address, and makes addresses local. While all addresses answer, it
// does so rarely.
func (h *helper) look() error {
	now, wait := time.Now(), lookAgain
	if len(h.rules) < len(h.ways) || len(h.held) > len(h.ways) || slices.ContainsFunc(h.ways, func(w way) bool { return w.standby }) {
		wait = lookSoon
	}
	if now.Sub(h.looked) < wait {
		return nil
	}
	h.looked = now
	at, err := places(h.request.Addrs)
	if err != nil {
		return err
	}
	isFirst := h.ways == nil
	h.ways = nil
	var errs []error
	if isFirst {
		errs = append(errs, h.adopt(now))
	}
	for _, addr := range h.request.Addrs {
		w := wayFor(addr, at[addr], h.request)
		if w.add {
			errs = append(errs, addAddress(addr))
		}
		if w.hold {
			h.hold(addr, w.mode, now)
		}
		if isFirst {
			h.addLeft(w.served) // by a helper that was killed
		}
		h.ways = append(h.ways, w)
	}
	return errors.Join(append(errs, h.drop(now.Add(-lingerFor)))...)
}

// held is an address that the helper has made local.
type held struct {
	addr   netip.Addr
	mode   intercept.Mode
	wanted time.Time // when it was requested last
}

// adopt holds the addresses that a killed helper left on our link, as requested until now.
func (h *helper) adopt(now time.Time) error {
	addrs, err := linkAddrs()
	for _, addr := range addrs {
		if !slices.ContainsFunc(h.held, func(have held) bool { return have.addr == addr }) {
			h.held = append(h.held, held{addr, intercept.Local, now})
		}
	}
	return err
}

func (h *helper) hold(addr netip.Addr, mode intercept.Mode, now time.Time) {
	h.held = slices.DeleteFunc(h.held, func(have held) bool { return have.addr == addr })
	h.held = append(h.held, held{addr, mode, now})
}

// linger records that the request wanted its addresses until now. The last look may be more than
// lingerFor ago.
func (h *helper) linger(now time.Time) {
	for i := range h.held {
		if slices.Contains(h.request.Addrs, h.held[i].addr) {
			h.held[i].wanted = now
		}
	}
}

// drop removes addresses that were not requested since a time. The others keep the rules for
// responses from them.
func (h *helper) drop(since time.Time) error {
	var errs []error
	had := len(h.held)
	h.held = slices.DeleteFunc(h.held, func(have held) bool {
		if have.wanted.After(since) {
			return false
		}
		errs = append(errs, removeAddress(have.addr))
		return true
	})
	var addrs, closed []netip.Addr
	for _, have := range h.held {
		addrs = append(addrs, have.addr)
		if have.mode == intercept.Local { // NodeLocal DNSCache has other ports
			closed = append(closed, have.addr)
		}
	}
	if had > 0 && len(addrs) == 0 {
		errs = append(errs, removeLink())
	}
	return errors.Join(append(errs, setReplies(addrs, closed))...)
}
