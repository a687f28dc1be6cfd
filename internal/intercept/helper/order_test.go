package helper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/node-dns/node-dns/internal/intercept"
	"github.com/node-dns/node-dns/internal/test/lab"
)

// fakeKernel notes its rules, when they change, and what the state file says then.
type fakeKernel struct {
	root string
	seen []string
	last time.Time // of the last change
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
	k.last = time.Now()
	k.seen = append(k.seen, fmt.Sprintf("rules [%s], on [%s]", strings.Join(rules, " "), strings.Join(on, " ")))
	return nil
}

func (k *fakeKernel) passages() (queries, responses passage, err error) { return }
func (k *fakeKernel) close() error                                      { return k.set(nil) }

// newFakeHelper returns a helper that does not look at the host, in the middle of a request.
func newFakeHelper(t *testing.T, addrs ...string) (*helper, *fakeKernel) {
	t.Helper()
	var request intercept.Request
	for _, addr := range addrs {
		request.Addrs = append(request.Addrs, netip.MustParseAddr(addr))
	}
	root := lab.Tree(t, map[string]string{intercept.RequestFile(""): string(request.Format()), intercept.StateFile(""): "{}"})
	k := &fakeKernel{root: root}
	h := &helper{Config: Config{Root: root, Log: slog.New(slog.DiscardHandler)}, table: k, request: request, looked: time.Now().Add(time.Hour)}
	for _, addr := range request.Addrs {
		h.ways = append(h.ways, way{served: served{addr: addr, mode: intercept.Local}, probe: addr})
	}
	return h, k
}

// TestReleaseTime: the rules of an address go within interval + probeTimeout after its last answer,
// in fake time: within 250 ms, whenever node-dns fails and however slow it was before.
func TestReleaseTime(t *testing.T) {
	for _, test := range []struct {
		name   string
		slow   time.Duration // until each answer
		fail   error         // instead of an answer, from the failure on
		within time.Duration
	}{
		{"silent", 0, os.ErrDeadlineExceeded, interval + probeTimeout},
		{"silent after slow answers", probeTimeout - 1, os.ErrDeadlineExceeded, interval + probeTimeout},
		{"not listening", 0, syscall.ECONNREFUSED, interval},
	} {
		for _, into := range []time.Duration{0, 1, interval / 2, interval - 1, probeTimeout - 1} {
			t.Run(fmt.Sprintf("%s, %v later", test.name, into), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					h, k := newFakeHelper(t, cluster4)
					fails := time.Now().Add(time.Second + into)
					var last time.Time
					h.identify = func(ctx context.Context, _ netip.AddrPort, deadline time.Time) (string, error) {
						if time.Sleep(test.slow); time.Now().Before(fails) {
							last = time.Now()
							return "node-dns 0.9.0", nil
						}
						if errors.Is(test.fail, os.ErrDeadlineExceeded) {
							time.Sleep(time.Until(deadline))
						}
						return "", test.fail
					}
					ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
					defer cancel()
					if err := h.loop(ctx); err != nil {
						t.Fatal(err)
					}
					want := []string{"rules [10.96.0.10], on [10.96.0.10]", "rules [], on [10.96.0.10]"}
					if took := k.last.Sub(last); !slices.Equal(k.seen, want) || took > test.within {
						t.Errorf("got %q, the last one %v after the last answer; want %q within %v", k.seen, took, want, test.within)
					}
				})
			})
		}
	}
}

// TestStateNeverLags: the state file says that an address is on before its rules are in the kernel,
// and until they are gone. The daemon closes its sockets when the file says that all are off.
func TestStateNeverLags(t *testing.T) {
	h, k := newFakeHelper(t, cluster4, cluster6)
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
	if err := os.Remove(intercept.RequestFile(h.Root)); err != nil {
		t.Fatal(err)
	}
	if err := h.change([]served{h.ways[0].served}, []string{"", silent}); err != nil {
		t.Fatal(err)
	}
	if want := []string{"rules [], on [10.96.0.10 fd00::a]"}; !slices.Equal(k.seen, want) {
		t.Errorf("after the request is withdrawn: got %q, want %q", k.seen, want)
	}
}
