package helper

import (
	"errors"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/nftables/expr"
)

// TestSetSupported: a kernel without a feature keeps the rules that do not need it. Without
// translation in tables of family inet, pods reached other ports of the address.
func TestSetSupported(t *testing.T) {
	addrs := []netip.Addr{netip.MustParseAddr("10.96.0.10")}
	isMasq := func(e expr.Any) bool { _, is := e.(*expr.Masq); return is }
	isReject := func(e expr.Any) bool { _, is := e.(*expr.Reject); return is }
	for _, test := range []struct {
		name  string
		lacks func(expr.Any) bool
		want  []string
	}{
		{"all", func(expr.Any) bool { return false }, []string{"raw-output", "raw-output", "nat-postrouting", "filter-input", "filter-input"}},
		{"no masquerade", isMasq, []string{"raw-output", "raw-output", "filter-input", "filter-input"}},
		{"no reject", isReject, []string{"raw-output", "raw-output"}},
	} {
		var got []string
		err := setSupported(func(rules []rule) error {
			got = nil
			for _, r := range rules {
				if slices.ContainsFunc(r.exprs, test.lacks) {
					return errors.New("not supported")
				}
				got = append(got, r.chain.name)
			}
			return nil
		}, addrs, addrs)
		if d := cmp.Diff(test.want, got); err != nil || d != "" {
			t.Errorf("%s: %v, -want +got:\n%s", test.name, err, d)
		}
	}
}
