package migrate

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/node-dns/node-dns/internal/admin/control"
	"github.com/node-dns/node-dns/internal/dns/dnsserver"
	"github.com/node-dns/node-dns/internal/hostdns"
	"github.com/node-dns/node-dns/internal/resolvconf"
)

/*
Port 53 of one address passes from dnsmasq to node-dns, or back, without a query lost:

	           node-dns takes it                      and gives it back
	UDP        binds beside dnsmasq, and has what     lets dnsmasq bind beside it, which has it from
	           comes from then on                     then on; where dnsmasq is bound to every address,
	                                                  when node-dns has turned away
	in flight  dnsmasq's get their time               node-dns answers what it has received
	TCP        nobody listens for a moment, in which new connections are held; those there are get their time
*/

const (
	// bindPatience is how long node-dns may take to bind or release an address.
	bindPatience = 5 * time.Second
	// quietPatience is how long pending UDP queries of a nameserver may take. Its clients wait no
	// longer (resolv.conf(5)).
	quietPatience = 5 * time.Second
	// connectionPatience is how long a connection may take to end. New ones are held in the
	// meantime; see holdLimit.
	connectionPatience = time.Second
	// lookPatience is how long the daemon may take to inspect the host, including pending queries.
	lookPatience = 300 * time.Millisecond
	// startPatience is how long a unit may take until it has its sockets.
	startPatience = 10 * time.Second
)

// takePort replaces a unit by node-dns and then stops the unit.
func (a Applier) takePort(ctx context.Context, s Step) error {
	defer a.setTerms(context.WithoutCancel(ctx), dnsserver.Alone)
	s.At = stillLocal(s.At)
	if err := a.setTerms(ctx, dnsserver.Taking, s.At...); err != nil {
		return err
	}
	a.moment("taking")
	if err := awaitListeners(ctx, s.At, func(l control.Listener) bool { return l.UDP }); err != nil {
		return err
	}
	a.moment("UDP taken")
	if err := a.point(ctx); err != nil {
		return err
	}
	a.moment("pointed")
	_ = await(ctx, "queries in progress to end", quietPatience, func() (bool, error) { return isQuiet(s.Unit) }) // the queries have timed out by then
	release, err := holdTCP(ctx, s.At)
	if err != nil {
		return err
	}
	defer release()
	a.moment("held")
	_ = await(ctx, "connections to end", connectionPatience, func() (bool, error) { return hasNoConnections(s.At) })
	if err := systemctl(ctx, "stop", s.Unit); err != nil {
		return err
	}
	a.moment("stopped")
	return awaitListeners(ctx, s.At, func(l control.Listener) bool { return l.UDP && l.TCP })
}

// point makes the hook point resolv.conf at this node, where node-dns now answers, and follow the
// daemon's requests again. This must not happen earlier: a dnsmasq that reads its upstreams from
// resolv.conf would find itself there.
func (a Applier) point(ctx context.Context) error {
	err := errors.Join(systemctl(ctx, "unmask", "--runtime", applyPath), systemctl(ctx, "start", applyPath), systemctl(ctx, "start", applyUnit))
	if err != nil {
		return err
	}
	return await(ctx, "/etc/resolv.conf to name this node", bindPatience, func() (bool, error) {
		status, err := fetchStatus(ctx)
		r := status.ResolvConf
		if err == nil && (len(r.Pending) > 0 || !r.Ours && r.DropIn == "" && r.Hold != hostdns.LeftToAdmin) {
			err = fmt.Errorf("held: %s", r.Hold)
		}
		return err == nil, err
	})
}

// stopHook keeps the hook from pointing resolv.conf to this node again.
func stopHook(ctx context.Context) error {
	return errors.Join(systemctl(ctx, "stop", applyPath, applyUnit), systemctl(ctx, "mask", "--runtime", applyPath))
}

// givePort makes a unit serve again in place of node-dns, which stops listening. It also works
// after an unfinished takePort.
func (a Applier) givePort(ctx context.Context, j *Journal, s Step) error {
	s.At = stillLocal(s.At)
	err := errors.Join(dropHold(ctx), stopHook(ctx))
	resolv, others := j.split()
	err = errors.Join(err, a.restoreAll(others))
	if !asksItself(resolv) { // a dnsmasq that reads its upstreams from resolv.conf must find them when it starts
		err = errors.Join(err, a.restoreAll(resolv))
	}
	a.moment("unheeded")
	if s.WasActive && !holdsAll(s.Unit, s.At) {
		err = errors.Join(err, a.startAgain(ctx, s))
	}
	a.moment("started again")
	err = errors.Join(err, a.restoreAll(resolv))
	if isRunning(ctx) {
		err = errors.Join(err, a.setTerms(ctx, dnsserver.Gone), await(ctx, "node-dns to release port 53", bindPatience, func() (bool, error) {
			held, err := holders("/proc")
			return err == nil && !slices.ContainsFunc(held, func(h Holder) bool { return h.Unit == daemonUnit && h.Addr.Port() == portDNS }), err
		}))
	}
	a.moment("gone")
	return err
}

// startAgain starts a unit while node-dns still runs. node-dns yields every address, not only those
// that it took: a dnsmasq that is bound to every address did not start while node-dns listened at
// the address of a VPN that came after the migration.
func (a Applier) startAgain(ctx context.Context, s Step) error {
	at, err := listensTCP(daemonUnit)
	release, holdErr := holdTCP(ctx, slices.Concat(s.At, at))
	defer release()
	err = errors.Join(err, holdErr)
	a.moment("held again")
	if isRunning(ctx) {
		err = errors.Join(err, a.setTerms(ctx, dnsserver.Yielding), await(ctx, "node-dns to release TCP", connectionPatience, func() (bool, error) {
			at, err := listensTCP(daemonUnit)
			return err == nil && len(at) == 0, err
		}))
	}
	a.moment("yielding")
	err = errors.Join(err, systemctl(ctx, "start", s.Unit))
	return errors.Join(err, await(ctx, s.Unit+" to listen on port 53", startPatience, func() (bool, error) { return holdsAll(s.Unit, s.At), nil }))
}

// split separates resolv.conf from the other saved paths. The configuration of node-dns is in
// neither list: node-dns uses it until it stops. Without it, node-dns released addresses before the
// unit had them.
func (j Journal) split() (resolv, others []Saved) {
	for _, s := range j.Saved {
		switch dir := filepath.Dir(ourConfig); {
		case s.Path == libcFile:
			resolv = append(resolv, s)
		case s.Path != dir && filepath.Dir(s.Path) != dir:
			others = append(others, s)
		}
	}
	return resolv, others
}

// libcFile is the file in which the host's processes find their nameserver.
const libcFile = "/etc/resolv.conf"

// asksItself reports whether a saved resolv.conf names this node and is therefore useless until the
// unit has started: no program answers at loopback, and a dnsmasq that reads it finds no upstream.
// If it also names other servers, it is useful. Without the file that forcedns saved, dnsmasq
// refused queries.
func asksItself(resolv []Saved) bool {
	for _, s := range resolv {
		text := s.Data
		if s.Kind == "link" {
			text = readBehind(s)
		}
		if hostdns.IsOurs(text) {
			return true
		}
		own, others := false, false
		for _, addr := range resolvconf.Parse(text).Nameservers() {
			if addr.IsLoopback() {
				return true
			}
			own, others = own || isLocal(addr), others || !isLocal(addr)
		}
		if own && !others {
			return true
		}
	}
	return false
}

// readBehind reads the target of a saved link, which no step changes. It returns nil if there is
// none.
func readBehind(s Saved) []byte {
	target := s.Target
	if !filepath.IsAbs(target) {
		target = filepath.Join(filepath.Dir(s.Path), target)
	}
	text, _ := os.ReadFile(filepath.Join(root, target)) // a dangling link names no servers
	return text
}

// setTerms tells node-dns how to listen on these addresses, or on all if there are none. A status
// request makes it apply the terms at once.
func (a Applier) setTerms(ctx context.Context, terms dnsserver.Terms, at ...netip.AddrPort) error {
	path := filepath.Join(root, dnsserver.TermsFile)
	if _, err := os.Stat(filepath.Dir(path)); err != nil {
		return nil // node-dns does not run and has no sockets
	}
	if err := dnsserver.WriteTerms(path, terms, at...); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, lookPatience)
	defer cancel()
	_, _ = control.FetchStatus(ctx, control.SocketPath(root)) // the result is awaited elsewhere
	return nil
}

func isRunning(ctx context.Context) bool {
	_, err := fetchStatus(ctx)
	return !errors.Is(err, control.ErrNotRunning)
}

// awaitListeners waits until node-dns listens on the addresses.
func awaitListeners(ctx context.Context, at []netip.AddrPort, ok func(control.Listener) bool) error {
	return await(ctx, "node-dns to listen on port 53", bindPatience, func() (bool, error) {
		status, err := fetchStatus(ctx)
		if err != nil {
			return false, err
		}
		for _, want := range at {
			i := slices.IndexFunc(status.Listeners, func(l control.Listener) bool { return l.Address == want.String() })
			switch {
			case i < 0:
				return false, fmt.Errorf("it is not configured to listen on %v", want)
			case !ok(status.Listeners[i]):
				return false, fmt.Errorf("%v: %s", want, status.Listeners[i].Error)
			}
		}
		return true, nil
	})
}

// holdLimit is the maximum time for holding connections. The kernel ends the hold itself, even if
// this process is killed. A client repeats its first packet after 1 s and again after 3 s (RFC 6298
// section 2, tcp(7)), and a stub resolver waits 5 s.
const holdLimit = 2500 * time.Millisecond

// holdTable is our own nft table.
const holdTable = "node_dns_migrate"

// holdTCP delays new connections to the addresses: it drops their first packet, which the client
// sends again. release ends the hold and is never nil. Without nft(8), connections are not delayed.
// That is not an error, because the plan mentioned it.
func holdTCP(ctx context.Context, at []netip.AddrPort) (release func(), err error) {
	none := func() {}
	if _, err := exec.LookPath("nft"); err != nil || len(at) == 0 {
		return none, nil
	}
	if err := nft(ctx, holdRules(at)); err != nil {
		return none, fmt.Errorf("holding connections: %w", err)
	}
	return func() { _ = dropHold(context.WithoutCancel(ctx)) }, nil // if this fails, the timeout in the rules ends the hold
}

// holdRules returns the rules that hold connections. They replace leftover ones.
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
	// Before everything else that inspects connections, especially conntrack (-200).
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

// dropHold ends a hold, including one left by a killed process.
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
