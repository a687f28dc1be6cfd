package daemon

import (
	"context"
	"net/netip"
	"path/filepath"
	"slices"
	"testing"

	"github.com/node-dns/node-dns/internal/hostdns"
	"github.com/node-dns/node-dns/internal/netstate"
	"github.com/node-dns/node-dns/internal/nm"
)

// Right after a run of the hook `node-dns status` told that what it had just written was to be written, and exited 1.
func TestReread(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, "/etc/resolv.conf"), "nameserver 192.0.2.53\n")
	looker := hostdns.Looker{
		Paths:          hostdns.NewPaths(root),
		Net:            func(context.Context) (netstate.State, error) { return node(), nil },
		NetworkManager: func(context.Context) (nm.Snapshot, error) { return nm.Snapshot{}, nm.ErrNotRunning },
	}
	state := looker.Look(t.Context(), nm.Event{})
	view := &hostView{state: state, plan: hostdns.NewPlan(state)}
	listening := []netip.AddrPort{view.plan.Nameserver}
	wants := []string{looker.Paths.Record, looker.Paths.NodeResolvConf, looker.Paths.Original, looker.Paths.ResolvConf}
	if got := view.reread().pending(listening); !slices.Equal(got, wants) {
		t.Errorf("before the hook: pending %v, want %v", got, wants)
	}
	answers := func(context.Context, netip.AddrPort, bool) error { return nil }
	hook := hostdns.Runner{Looker: looker, Applier: hostdns.Applier{Answers: answers}}
	if _, _, err := hook.Apply(t.Context(), nm.Event{Action: "apply"}); err != nil {
		t.Fatal(err)
	}
	if got := view.reread().pending(listening); len(got) > 0 {
		t.Errorf("after the hook: pending %v", got)
	}
	write(t, looker.Paths.ResolvConf, "nameserver 192.0.2.1\n")
	if got := view.reread().pending(listening); !slices.Contains(got, looker.Paths.ResolvConf) {
		t.Errorf("after another tool wrote resolv.conf: pending %v", got)
	}
}
