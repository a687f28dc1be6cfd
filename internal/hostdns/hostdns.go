// Package hostdns decides what this host's DNS files must say, and puts it there.
//
// It looks at everything that has a say (NetworkManager, the kernel's routes, the node's configuration and the files
// as they are) into one State; NewPlan turns a State into a Plan without touching anything; an Applier carries a Plan
// out and returns its undo. Answering queries is not its business: it only asks whether the local nameserver answers,
// because /etc/resolv.conf points at this node only while it does.
package hostdns

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/node-dns/node-dns/internal/nodeconfig"
)

// Watermark is the comment line that says an /etc/resolv.conf is ours. Old tools and runbooks grep for the name of
// the script that node-dns replaces, so the line holds it.
const Watermark = "# nameserver is this node: node-dns in place of 99-origin-dns.sh; " +
	"original: /var/lib/node-dns/resolv.conf.orig; undo: origin-dns-dispatcher restore"

// LegacyWatermark is the line that openshift-ansible's 99-origin-dns.sh wrote (2016 to 3.11). A file that carries it
// is ours to keep, and its line stays as it is.
const LegacyWatermark = "# nameserver updated by /etc/NetworkManager/dispatcher.d/99-origin-dns.sh"

// Paths are the files that this package reads and writes. All of them lie below one root, so that tests and the demo
// work on a tree of their own.
type Paths struct {
	Root string // "" or "/": the host itself

	ResolvConf         string   // what libc reads
	NetworkManagerConf string   // NetworkManager's own list: always current, whatever dns= and rc-manager= say
	NetworkManagerList string   // the same without a local cache that dns= has it ask, as dnsmasq; since 1.14
	ResolvedUplinks    string   // systemd-resolved's uplinks, without its stub
	Upstreams          string   // one server=IP line an upstream, for the daemon, and for dnsmasq on the way back
	NodeResolvConf     string   // the original nameservers, for kubelet's resolvConf and dnsRecursiveResolvConf
	Kubeconfig         string   // what the daemon asks the Kubernetes API with, where it may not read the original
	DropIn             string   // has systemd-resolved ask this node
	Snippet            string   // keeps NetworkManager from writing resolv.conf while that names this node
	Original           string   // the resolv.conf that ours displaced: a file or a link
	Record             string   // the last good upstreams with where they came from
	Facts              string   // what the cluster's file says, for the daemon, which may not read that
	Cache              string   // the daemon's own, which a purge takes away
	Rewrites           string   // how often we had to write over what others wrote over ours: root's own, as the daemon's directory is not
	Units              []string // where the daemon's systemd unit may be
	Lock               string   // serialises runs
	Request            string   // the daemon's request for a run: it exists from then until a run begins
	WayBack            string   // stamp of a start of the unit in which systemd ran origin-dns-dispatcher; systemd removes it at a stop
}

// NewPaths returns the paths of DESIGN's table below root.
func NewPaths(root string) Paths {
	at := func(path string) string { return filepath.Join("/", root, path) }
	return Paths{
		Root:               filepath.Join("/", root),
		ResolvConf:         at("/etc/resolv.conf"),
		NetworkManagerConf: at("/run/NetworkManager/resolv.conf"),
		NetworkManagerList: at("/run/NetworkManager/no-stub-resolv.conf"),
		ResolvedUplinks:    at("/run/systemd/resolve/resolv.conf"),
		Upstreams:          at("/etc/dnsmasq.d/origin-upstream-dns.conf"),
		NodeResolvConf:     at("/etc/origin/node/resolv.conf"),
		DropIn:             at("/run/systemd/resolved.conf.d/90-node-dns.conf"),
		Snippet:            at("/run/NetworkManager/conf.d/90-node-dns.conf"),
		Original:           at("/var/lib/node-dns/resolv.conf.orig"),
		Record:             at("/var/lib/node-dns/upstreams.json"),
		Facts:              nodeconfig.DefaultPaths(filepath.Join("/", root)).Facts,
		Kubeconfig:         nodeconfig.DefaultPaths(filepath.Join("/", root)).Handover,
		Cache:              at("/var/cache/node-dns"),
		Rewrites:           at("/run/origin-dns-dispatcher/rewrites.json"),
		Units:              []string{at("/etc/systemd/system/node-dns.service"), at("/usr/lib/systemd/system/node-dns.service")},
		Lock:               at("/run/origin-dns-dispatcher.lock"),
		Request:            at("/run/node-dns/apply"),
		WayBack:            at("/run/node-dns/way-back"),
	}
}

// inUse reports whether node-dns runs, or may do so again in a moment: its runtime directory is there, which systemd keeps
// over a restart and removes at a stop (RuntimeDirectoryPreserve=restart). Without a unit nobody removes it, nor says what
// is meant: who has put the hook there by hand wants it.
func (p Paths) inUse() bool {
	return mayExist(filepath.Dir(p.Request)) || !p.hasUnit()
}

// hasUnit reports whether the daemon's systemd unit is installed.
func (p Paths) hasUnit() bool { return slices.ContainsFunc(p.Units, mayExist) }

// mayExist reports whether path exists. One that cannot be looked at counts.
func mayExist(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// host returns the path as the host sees it, without the root: what messages show.
func (p Paths) host(path string) string {
	rel, err := filepath.Rel(p.Root, path)
	if err != nil {
		return path
	}
	return "/" + rel
}
