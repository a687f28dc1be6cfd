package migrate

import (
	"context"
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"time"
)

// holdLimit is for how long connections are held at most, whoever is killed meanwhile: the kernel lets go by itself. Who
// connects sends its first packet again after 1 s, and then after 3 s (RFC 6298 section 2, tcp(7)); a stub resolver waits 5 s.
const holdLimit = 2500 * time.Millisecond

// holdTable is nft's table, which nobody else has.
const holdTable = "node_dns_migrate"

// holdTCP has new connections to addresses wait: their first packet is dropped, and comes again. release ends it; there is
// always one. Without nft(8) connections are not held, which is no error: the plan has said so.
func holdTCP(ctx context.Context, at []netip.AddrPort) (release func(), err error) {
	none := func() {}
	if _, err := exec.LookPath("nft"); err != nil || len(at) == 0 {
		return none, nil
	}
	if err := nft(ctx, holdRules(at)); err != nil {
		return none, fmt.Errorf("holding connections: %w", err)
	}
	return func() { _ = dropHold(context.WithoutCancel(ctx)) }, nil // else the time in it ends it
}

// holdRules are the rules that hold connections, in place of those of another time.
func holdRules(at []netip.AddrPort) string {
	var v4, v6 []string
	for _, a := range at {
		if addr := a.Addr().WithZone(""); addr.Is4() {
			v4 = append(v4, addr.String())
		} else {
			v6 = append(v6, addr.String())
		}
	}
	limit := fmt.Sprintf("%ds%dms", holdLimit/time.Second, holdLimit%time.Second/time.Millisecond)
	var b strings.Builder
	fmt.Fprintf(&b, "add table inet %[1]s\ndelete table inet %[1]s\nadd table inet %[1]s\n", holdTable)
	// Before whatever else looks at a connection, conntrack (-200) above all.
	fmt.Fprintf(&b, "add chain inet %s input { type filter hook input priority -300; policy accept; }\n", holdTable)
	for _, family := range []struct {
		set, kind, match string
		addrs            []string
	}{{"held4", "ipv4_addr", "ip", v4}, {"held6", "ipv6_addr", "ip6", v6}} {
		if len(family.addrs) == 0 {
			continue
		}
		fmt.Fprintf(&b, "add set inet %s %s { type %s; flags timeout; timeout %s; }\n", holdTable, family.set, family.kind, limit)
		fmt.Fprintf(&b, "add element inet %s %s { %s }\n", holdTable, family.set, strings.Join(family.addrs, ", "))
		fmt.Fprintf(&b, "add rule inet %s input %s daddr @%s tcp dport 53 tcp flags & (syn | ack) == syn drop\n", holdTable, family.match, family.set)
	}
	return b.String()
}

// dropHold ends a hold, of whoever was killed before, too.
func dropHold(ctx context.Context) error {
	if _, err := exec.LookPath("nft"); err != nil {
		return nil
	}
	return nft(ctx, fmt.Sprintf("add table inet %[1]s\ndelete table inet %[1]s\n", holdTable))
}

func nft(ctx context.Context, rules string) error {
	cmd := exec.CommandContext(ctx, "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(rules)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("running nft: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}
