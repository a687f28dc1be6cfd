package migrate

import (
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/node-dns/node-dns/internal/hostdns"
	"github.com/node-dns/node-dns/internal/nodeconfig"
	"github.com/node-dns/node-dns/internal/sys/atomicfile"
)

// Kind is what a Step does; each has its way back.
type Kind string

const (
	RemoveFile  Kind = "remove"  // a file that is kept in the journal
	Start       Kind = "start"   // a unit, now and at every boot
	TakePort    Kind = "port"    // 53 passes from a unit to node-dns, and the unit is stopped
	Point       Kind = "point"   // resolv.conf names this node, and is kept so
	Mask        Kind = "mask"    // a unit that is not to start again, whoever wants it
	Release     Kind = "release" // a file that keeps NetworkManager from writing resolv.conf is removed, and NetworkManager told
	WriteFile   Kind = "write"   // a file gets a new content
	MakeLink    Kind = "link"    // a symbolic link in the place of a file
	DropAddress Kind = "address" // an address is taken from a link, with the packet filter's rules for it
	Check       Kind = "check"   // that names resolve
)

// Step is one change to the node, or a check. Doing it twice does no more than doing it once, and so does undoing it,
// whether it was done, begun or neither.
type Step struct {
	Kind Kind `json:"kind"`
	// What is the step as a sentence in the imperative, without its full stop.
	What    string           `json:"what"`
	Path    string           `json:"path,omitempty"`    // of RemoveFile, WriteFile, MakeLink and Release
	Unit    string           `json:"unit,omitempty"`    // of Start, TakePort and Mask
	At      []netip.AddrPort `json:"at,omitempty"`      // of TakePort: the addresses
	Content string           `json:"content,omitempty"` // of WriteFile: the whole; of MakeLink: where it leads
	Link    string           `json:"link,omitempty"`    // of DropAddress: the link, the address and the rules
	Addr    netip.Addr       `json:"addr,omitzero"`
	Rules   []Rule           `json:"rules,omitempty"`
	// WasEnabled and WasActive say how the unit was before.
	WasEnabled bool `json:"wasEnabled,omitempty"`
	WasActive  bool `json:"wasActive,omitempty"`
	// Touches are the paths that the step changes, or may have others change: they are kept before the first step is done,
	// and are as they were when all is undone. A directory is one that is removed where it was not there, and empty.
	Touches []string `json:"touches,omitempty"`
}

// changesFiles reports whether the step changes files that others may keep, as a machine config does: units among them.
func (s Step) changesFiles() bool {
	return slices.Contains([]Kind{RemoveFile, Mask, Release, WriteFile, MakeLink}, s.Kind)
}

func removeStep(path, why string) Step {
	return Step{Kind: RemoveFile, Path: path, Touches: []string{path}, What: fmt.Sprintf("move %s aside: %s", path, why)}
}

func (h Host) startStep() Step {
	unit := h.Units[daemonUnit]
	return Step{
		Kind: Start, Unit: daemonUnit, WasEnabled: unit.File == "enabled", WasActive: unit.IsActive(),
		What: fmt.Sprintf("enable and start %s, which is to listen on %s and asks %s, and wait until its upstreams answer",
			daemonUnit, addrWords(h.listen()), h.upstreams()),
		Touches: []string{
			"/etc/resolv.conf", "/etc/dnsmasq.d", "/etc/dnsmasq.d/origin-upstream-dns.conf", "/etc/origin", "/etc/origin/node", "/etc/origin/node/resolv.conf",
			wantsLink(daemonUnit),
		},
	}
}

// upstreams are whom node-dns will ask, in words.
func (h Host) upstreams() string {
	servers, from := h.upstreamServers(), ourConfig
	if len(servers) == 0 {
		return "what node-config.yaml names"
	}
	if len(h.State.Config.Upstreams) == 0 {
		from = strings.TrimSpace(string(h.Plan.Selection.Origin) + " " + h.Plan.Selection.Detail)
	}
	var all []string
	for _, server := range servers {
		all = append(all, server.String())
	}
	return strings.Join(all, ", ") + " (from " + from + ")"
}

func takeStep(h Host, unit string) Step {
	var at []netip.AddrPort
	for _, a := range h.listen() {
		if slices.ContainsFunc(h.Holders, func(holder Holder) bool { return holder.Unit == unit && holder.Covers(a) }) {
			at = append(at, a)
		}
	}
	what := fmt.Sprintf("stop %s, which holds no address that node-dns listens on", unit)
	if len(at) > 0 {
		what = fmt.Sprintf("hand port 53 of %s over from %s to node-dns, and stop %s when what it was asked is answered", addrWords(at), unit, unit)
	}
	return Step{Kind: TakePort, Unit: unit, At: at, WasActive: true, What: what}
}

func addrWords(at []netip.AddrPort) string {
	var addrs []netip.Addr
	for _, a := range at {
		addrs = append(addrs, a.Addr())
	}
	return words(addrs)
}

func maskStep(h Host, unit string) Step {
	what := fmt.Sprintf("disable and mask %s: origin-node.service, say, would start it with itself", unit)
	if !maskable(unit, h.Units[unit]) {
		what = fmt.Sprintf("disable %s: its file is in /etc, so that it cannot be masked, and whatever wants it starts it again", unit)
	}
	return Step{
		Kind: Mask, Unit: unit, WasEnabled: h.Units[unit].File == "enabled", WasActive: h.Units[unit].IsActive(),
		What: what, Touches: []string{wantsLink(unit), unitLink(unit)},
	}
}

// maskable reports whether a unit's file is elsewhere than where the mask would be (systemctl(1)).
func maskable(name string, unit Unit) bool {
	return filepath.Dir(unit.Path) != filepath.Dir(unitLink(name))
}

func releaseStep(path, setting string) Step {
	return Step{
		Kind: Release, Path: path, Touches: []string{path},
		What: fmt.Sprintf("move %s (%s) aside and have NetworkManager read its configuration: it leaves /etc/resolv.conf to node-dns while that runs, and writes it when that has ended", path, setting),
	}
}

func (h Host) pointStep() Step {
	what := "have /etc/resolv.conf name this node, and origin-dns-dispatcher keep it so"
	switch h.Plan.Via {
	case nodeconfig.ResolvConfResolved:
		what = "have systemd-resolved ask this node, and origin-dns-dispatcher keep it so"
	case nodeconfig.ResolvConfNone:
		what = "leave /etc/resolv.conf as it is (" + hostdns.LeftToAdmin + "), and have origin-dns-dispatcher heed NetworkManager"
	}
	return Step{Kind: Point, What: what}
}

func (h Host) checkStep() Step {
	return Step{Kind: Check, What: "check that node-dns answers, for this node's pods and by /etc/resolv.conf, what was answered before; if not, go all the way back"}
}

// wantsLink is how a unit is enabled, and unitLink what masks it (systemctl(1)).
func wantsLink(unit string) string {
	return filepath.Join("/etc/systemd/system/multi-user.target.wants", unit)
}

func unitLink(unit string) string { return filepath.Join("/etc/systemd/system", unit) }

// writeStep gives a file a new content. What it was, and which of its directories were not there, is kept.
func writeStep(path, content, why string) Step {
	touches := []string{path}
	for dir := filepath.Dir(path); dir != "/etc" && dir != "/run" && dir != "/"; dir = filepath.Dir(dir) {
		touches = append(touches, dir)
	}
	return Step{Kind: WriteFile, Path: path, Content: content, Touches: touches, What: fmt.Sprintf("write %s: %s", path, why)}
}

// linkStep puts a symbolic link where a file is.
func linkStep(path, target, why string) Step {
	return Step{Kind: MakeLink, Path: path, Content: target, Touches: []string{path}, What: fmt.Sprintf("make %s a link to %s: %s", path, target, why)}
}

// write keeps the mode of a file that is there.
func (s Step) write(root string) error {
	path, mode := filepath.Join(root, s.Path), fs.FileMode(0o644)
	if err := makeDir(filepath.Dir(path)); err != nil {
		return err
	}
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}
	_, err := atomicfile.Writer{}.Write(path, []byte(s.Content), mode)
	return err
}

func (s Step) link(root string) error {
	_, err := atomicfile.Writer{}.Symlink(filepath.Join(root, s.Path), s.Content)
	return err
}
