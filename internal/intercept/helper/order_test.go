package helper

import (
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/node-dns/node-dns/internal/intercept"
)

// fakeKernel notes its rules, and what the state file says when they change.
type fakeKernel struct {
	root string
	seen []string
}

func (k *fakeKernel) set(list []served) error {
	state, err := intercept.ReadState(intercept.StateFile(k.root))
	if err != nil {
		return err
	}
	var rules, on []string
	for _, s := range list {
		rules = append(rules, s.addr.String())
	}
	for _, addr := range []string{cluster4, cluster6} {
		if state.Intercepts(func(a intercept.Address) bool { return a.Address.String() == addr }) {
			on = append(on, addr)
		}
	}
	k.seen = append(k.seen, fmt.Sprintf("rules [%s], on [%s]", strings.Join(rules, " "), strings.Join(on, " ")))
	return nil
}

func (k *fakeKernel) passage() (passage, error) { return passage{}, nil }
func (k *fakeKernel) close() error              { return k.set(nil) }

// TestStateNeverLags: the state file says that an address is on before its rules are in the kernel,
// and until they are gone. The daemon closes its sockets when the file says that all are off.
func TestStateNeverLags(t *testing.T) {
	root := t.TempDir()
	request := intercept.Request{Addrs: []netip.Addr{netip.MustParseAddr(cluster4), netip.MustParseAddr(cluster6)}}
	for path, data := range map[string][]byte{intercept.RequestFile(root): request.Format(), intercept.StateFile(root): []byte("{}")} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	k := &fakeKernel{root: root}
	h := &helper{Config: Config{Root: root, Log: slog.New(slog.DiscardHandler)}, table: k, request: request}
	for _, addr := range request.Addrs {
		h.ways = append(h.ways, way{served: served{addr: addr, mode: intercept.Local}, probe: addr})
	}
	h.looked = h.looked.AddDate(2000, 0, 0) // not zero: the request has not changed
	const silent = "node-dns does not answer"
	for _, step := range []struct {
		name string
		why  []string
		want []string // in this order
	}{
		{"both answer", []string{"", ""}, []string{"rules [10.96.0.10 fd00::a], on [10.96.0.10 fd00::a]"}},
		{"nothing changes", []string{"", ""}, nil},
		{"one stops", []string{silent, ""}, []string{"rules [fd00::a], on [10.96.0.10 fd00::a]"}},
		{"the other one instead", []string{"", silent}, []string{"rules [], on [fd00::a]", "rules [10.96.0.10], on [10.96.0.10]"}},
		{"both stop", []string{silent, silent}, []string{"rules [], on [10.96.0.10]"}},
		{"both answer again", []string{"", ""}, []string{"rules [10.96.0.10 fd00::a], on [10.96.0.10 fd00::a]"}},
	} {
		k.seen = nil
		var rules []served
		for i, w := range h.ways {
			if step.why[i] == "" {
				rules = append(rules, w.served)
			}
		}
		if err := h.change(rules, step.why); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if !slices.Equal(k.seen, step.want) {
			t.Errorf("%s: got %q, want %q", step.name, k.seen, step.want)
		}
	}

	// A daemon that withdraws its request after the probe finds nothing new in the kernel.
	k.seen = nil
	if err := h.change(nil, []string{silent, silent}); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(intercept.RequestFile(root)); err != nil {
		t.Fatal(err)
	}
	if err := h.change([]served{h.ways[0].served}, []string{"", silent}); err != nil {
		t.Fatal(err)
	}
	if want := []string{"rules [], on [10.96.0.10 fd00::a]"}; !slices.Equal(k.seen, want) {
		t.Errorf("after the request is withdrawn: got %q, want %q", k.seen, want)
	}
}
