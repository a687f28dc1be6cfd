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
	// bindPatience is how long node-dns may take to bind, or to let go of, an address.
	bindPatience = 5 * time.Second
	// quietPatience is how long what a nameserver was asked over UDP may take: its client waits no longer (resolv.conf(5)).
	quietPatience = 5 * time.Second
	// connectionPatience is how long a connection may take to end. New ones are held meanwhile: see holdLimit.
	connectionPatience = time.Second
	// lookPatience is how long the daemon may take to look; it may have to wait for the queries under way.
	lookPatience = 300 * time.Millisecond
	// startPatience is how long a unit may take until it has its sockets.
	startPatience = 10 * time.Second
)

// takePort has node-dns serve in place of a unit, which then ends.
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
	_ = await(ctx, "what is in flight", quietPatience, func() (bool, error) { return isQuiet(s.Unit) }) // its time is up then
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

// point has the hook point resolv.conf at this node, where node-dns answers by now, and heed again what the daemon asks for.
// Before, it must not: a dnsmasq that reads resolv.conf for its upstreams would find itself there.
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

// unheed keeps resolv.conf from being pointed at this node again.
func unheed(ctx context.Context) error {
	return errors.Join(systemctl(ctx, "stop", applyPath, applyUnit), systemctl(ctx, "mask", "--runtime", applyPath))
}

// givePort has a unit serve again in place of node-dns, which stops listening, also after a takePort that did not finish.
func (a Applier) givePort(ctx context.Context, j *Journal, s Step) error {
	s.At = stillLocal(s.At)
	err := errors.Join(dropHold(ctx), unheed(ctx))
	resolv, others := j.split()
	err = errors.Join(err, a.restoreAll(others))
	if !asksItself(resolv) { // a dnsmasq that has its upstreams from there must find them when it starts
		err = errors.Join(err, a.restoreAll(resolv))
	}
	a.moment("unheeded")
	if s.WasActive && !holdsAll(s.Unit, s.At) {
		err = errors.Join(err, a.startAgain(ctx, s))
	}
	a.moment("started again")
	err = errors.Join(err, a.restoreAll(resolv))
	if isRunning(ctx) {
		err = errors.Join(err, a.setTerms(ctx, dnsserver.Gone), await(ctx, "node-dns to let go of port 53", bindPatience, func() (bool, error) {
			held, err := holders("/proc")
			return err == nil && !slices.ContainsFunc(held, func(h Holder) bool { return h.Unit == daemonUnit && h.Addr.Port() == portDNS }), err
		}))
	}
	a.moment("gone")
	return err
}

// startAgain starts a unit beside node-dns.
func (a Applier) startAgain(ctx context.Context, s Step) error {
	release, err := holdTCP(ctx, s.At)
	defer release()
	a.moment("held again")
	if isRunning(ctx) {
		err = errors.Join(err, a.setTerms(ctx, dnsserver.Yielding, s.At...), await(ctx, "node-dns to let go of TCP", connectionPatience, func() (bool, error) {
			listens, err := listensTCP(daemonUnit, s.At)
			return !listens, err
		}))
	}
	a.moment("yielding")
	err = errors.Join(err, systemctl(ctx, "start", s.Unit))
	return errors.Join(err, await(ctx, s.Unit+" to have port 53", startPatience, func() (bool, error) { return holdsAll(s.Unit, s.At), nil }))
}

// split tells resolv.conf from all else that was kept. What node-dns is configured by is in neither: it serves by that until it ends,
// and without it let go of addresses before the unit had them.
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

// libcFile is what processes of the host find their nameserver in.
const libcFile = "/etc/resolv.conf"

// asksItself reports whether a kept resolv.conf names this node, and is of no use before the unit has started: nobody answers at loopback,
// and a dnsmasq that reads it finds no upstream. One that names others too is: that of forcedns, without which dnsmasq refused queries.
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

// readBehind reads the file that a kept link leads to, which no step changes; nil: there is none.
func readBehind(s Saved) []byte {
	target := s.Target
	if !filepath.IsAbs(target) {
		target = filepath.Join(filepath.Dir(s.Path), target)
	}
	text, _ := os.ReadFile(filepath.Join(root, target)) // a link that leads nowhere names nobody
	return text
}

// setTerms tells node-dns how to listen at these addresses, or at all if there are none. A request for its status has it look at once.
func (a Applier) setTerms(ctx context.Context, terms dnsserver.Terms, at ...netip.AddrPort) error {
	path := filepath.Join(root, dnsserver.TermsFile)
	if _, err := os.Stat(filepath.Dir(path)); err != nil {
		return nil // it does not run, and has no sockets
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

// awaitListeners waits until node-dns listens at addresses.
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
				return false, fmt.Errorf("it does not want to listen on %v", want)
			case !ok(status.Listeners[i]):
				return false, fmt.Errorf("%v: %s", want, status.Listeners[i].Error)
			}
		}
		return true, nil
	})
}

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
