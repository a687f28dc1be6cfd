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

// Kind is the kind of a Step. Each kind can be undone.
type Kind string

const (
	RemoveFile  Kind = "remove"  // removes a file that is saved in the journal
	Start       Kind = "start"   // starts a unit, now and at every boot
	TakePort    Kind = "port"    // passes port 53 from a unit to node-dns and stops the unit
	Point       Kind = "point"   // makes resolv.conf name this node, permanently
	Mask        Kind = "mask"    // prevents every start of a unit
	Release     Kind = "release" // removes a file that keeps NetworkManager from writing resolv.conf, and makes NetworkManager reload
	WriteFile   Kind = "write"   // replaces the content of a file
	MakeLink    Kind = "link"    // replaces a file by a symbolic link
	DropAddress Kind = "address" // removes an address from a link, with its packet filter rules
	Check       Kind = "check"   // checks that names resolve
)

// Step is one change to the node, or a check. Doing and undoing it are idempotent. Undoing also
// works if the step was only started, or not at all.
type Step struct {
	Kind Kind `json:"kind"`
	// What describes the step as an imperative sentence without a full stop.
	What    string           `json:"what"`
	Path    string           `json:"path,omitempty"`    // for RemoveFile, WriteFile, MakeLink and Release
	Unit    string           `json:"unit,omitempty"`    // for Start, TakePort and Mask
	At      []netip.AddrPort `json:"at,omitempty"`      // for TakePort: the addresses
	Content string           `json:"content,omitempty"` // for WriteFile: the whole content; for MakeLink: the target
	Link    string           `json:"link,omitempty"`    // for DropAddress: the link, the address and the rules
	Addr    netip.Addr       `json:"addr,omitzero"`
	Rules   []Rule           `json:"rules,omitempty"`
	// WasEnabled and WasActive are the state of the unit before the step.
	WasEnabled bool `json:"wasEnabled,omitempty"`
	WasActive  bool `json:"wasActive,omitempty"`
	// Touches are the paths that the step changes itself or through other programs. They are saved
	// before the first step and restored after an undo. A directory is removed only if it did not
	// exist before and is empty.
	Touches []string `json:"touches,omitempty"`
}

// changesFiles reports whether the step changes files that a machine config, for example, may
// manage. Units are such files.
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
		What: fmt.Sprintf("enable and start %s, which will listen on %s and ask %s, and wait until its upstreams answer",
			daemonUnit, addrWords(h.listen()), h.upstreams()),
		Touches: []string{
			"/etc/resolv.conf", "/etc/dnsmasq.d", "/etc/dnsmasq.d/origin-upstream-dns.conf", "/etc/origin", "/etc/origin/node", "/etc/origin/node/resolv.conf",
			wantsLink(daemonUnit),
		},
	}
}

// upstreams describes the servers that node-dns will use.
func (h Host) upstreams() string {
	servers, from := h.upstreamServers(), ourConfig
	if len(servers) == 0 {
		return "the servers in node-config.yaml"
	}
	if len(h.State.Config.Upstreams) == 0 {
		from = h.Plan.Selection.Origin.With(h.Plan.Selection.Detail)
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
	what := fmt.Sprintf("stop %s, which uses no address that node-dns listens on", unit)
	if len(at) > 0 {
		what = fmt.Sprintf("move port 53 of %s from %s to node-dns, and stop %s after it has answered its pending queries", addrWords(at), unit, unit)
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
	what := fmt.Sprintf("disable and mask %s, because units such as origin-node.service would start it", unit)
	if !maskable(unit, h.Units[unit]) {
		what = fmt.Sprintf("disable %s: its file is in /etc, so it cannot be masked, and units that want it start it again", unit)
	}
	return Step{
		Kind: Mask, Unit: unit, WasEnabled: h.Units[unit].File == "enabled", WasActive: h.Units[unit].IsActive(),
		What: what, Touches: []string{wantsLink(unit), unitLink(unit)},
	}
}

// maskable reports whether a unit's file is outside the directory of the mask (systemctl(1)).
func maskable(name string, unit Unit) bool {
	return filepath.Dir(unit.Path) != filepath.Dir(unitLink(name))
}

func releaseStep(path, setting string) Step {
	return Step{
		Kind: Release, Path: path, Touches: []string{path},
		What: fmt.Sprintf("move %s (%s) aside and make NetworkManager reload its configuration: it does not write /etc/resolv.conf while node-dns runs, and writes it after node-dns stops", path, setting),
	}
}

func (h Host) pointStep() Step {
	what := "make /etc/resolv.conf name this node; origin-dns-dispatcher maintains it"
	switch h.Plan.Via {
	case nodeconfig.ResolvConfResolved:
		what = "make systemd-resolved ask this node; origin-dns-dispatcher maintains that"
	case nodeconfig.ResolvConfNone:
		what = "leave /etc/resolv.conf unchanged (" + hostdns.LeftToAdmin + "), and make origin-dns-dispatcher follow NetworkManager"
	}
	return Step{Kind: Point, What: what}
}

func (h Host) checkStep() Step {
	return Step{Kind: Check, What: "check that node-dns answers what was answered before, for this node's pods and through /etc/resolv.conf; if not, undo all steps"}
}

// wantsLink returns the link that enables a unit, and unitLink the one that masks it
// (systemctl(1)).
func wantsLink(unit string) string {
	return filepath.Join("/etc/systemd/system/multi-user.target.wants", unit)
}

func unitLink(unit string) string { return filepath.Join("/etc/systemd/system", unit) }

// writeStep replaces the content of a file. The old content is saved, and also which of its
// directories did not exist.
func writeStep(path, content, why string) Step {
	touches := []string{path}
	for dir := filepath.Dir(path); dir != "/etc" && dir != "/run" && dir != "/"; dir = filepath.Dir(dir) {
		touches = append(touches, dir)
	}
	return Step{Kind: WriteFile, Path: path, Content: content, Touches: touches, What: fmt.Sprintf("write %s: %s", path, why)}
}

// linkStep replaces a file by a symbolic link.
func linkStep(path, target, why string) Step {
	return Step{Kind: MakeLink, Path: path, Content: target, Touches: []string{path}, What: fmt.Sprintf("make %s a link to %s: %s", path, target, why)}
}

// write keeps the mode of an existing file.
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
