package helper

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/node-dns/node-dns/internal/intercept"
	"github.com/node-dns/node-dns/internal/sys/atomicfile"
)

// report writes the state file and the log when something has changed.
func (h *helper) report(why []string) error {
	now := time.Now()
	next := make([]intercept.Address, len(h.ways))
	for i, w := range h.ways {
		next[i] = intercept.Address{Address: w.addr, On: why[i] == "", Mode: w.mode, Since: now, Why: why[i]}
		if w.standby {
			next[i].Mode = intercept.Standby
		}
		if j := slices.IndexFunc(h.state.Addresses, func(a intercept.Address) bool { return a.Address == w.addr }); j >= 0 {
			if before := h.state.Addresses[j]; before.On == next[i].On && before.Mode == next[i].Mode {
				next[i].Since = before.Since
			}
		}
	}
	if slices.Equal(next, h.state.Addresses) {
		return nil
	}
	h.logChange(h.state.Addresses, next)
	h.state.Addresses = next
	return h.write()
}

// logChange logs which addresses are intercepted from now on, and which no longer, with the reason.
func (h *helper) logChange(before, after []intercept.Address) {
	was := func(addr netip.Addr) intercept.Address {
		i := slices.IndexFunc(before, func(a intercept.Address) bool { return a.Address == addr && a.On })
		if i < 0 {
			return intercept.Address{}
		}
		return before[i]
	}
	for _, a := range after {
		switch old := was(a.Address); {
		case a.On && (!old.On || old.Mode != a.Mode):
			h.Log.Info("intercepting pods' queries", "address", a.Address, "mode", string(a.Mode))
		case !a.On && old.On:
			h.Log.Warn("no longer intercepting pods' queries", "address", a.Address, "reason", a.Why)
		}
	}
	for _, a := range before {
		if a.On && !slices.ContainsFunc(after, func(b intercept.Address) bool { return b.Address == a.Address }) {
			h.Log.Info("no longer intercepting pods' queries", "address", a.Address, "reason", "node-dns withdrew its request")
		}
	}
}

func (h *helper) write() error {
	data, err := h.state.Marshal()
	if err != nil {
		return err
	}
	if _, err := new(atomicfile.Writer).Write(intercept.StateFile(h.Root), data, 0o644); err != nil {
		return fmt.Errorf("writing the state: %w", err)
	}
	return nil
}
