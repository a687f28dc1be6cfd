// Package hostdns decides what this host's DNS files must contain, and writes them.
//
// A Looker reads everything that matters (NetworkManager, the kernel's routes, the node's
// configuration and the current files) into one State. NewPlan turns a State into a Plan and has no
// side effects. An Applier carries out a Plan and returns its undo. This package does not answer
// queries. It only checks whether the local nameserver answers, because /etc/resolv.conf points at
// this node only while it does.
package hostdns

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/node-dns/node-dns/internal/nodeconfig"
)

// Watermark is the comment line that marks /etc/resolv.conf as ours. It contains the name of the
// script that node-dns replaces, because old tools and runbooks grep for it.
const Watermark = "# nameserver is this node: node-dns in place of 99-origin-dns.sh; " +
	"original: /var/lib/node-dns/resolv.conf.orig; undo: origin-dns-dispatcher restore"

// LegacyWatermark is the line that openshift-ansible's 99-origin-dns.sh wrote (2016 to 3.11). A
// file with this line also counts as ours, and the line stays.
const LegacyWatermark = "# nameserver updated by /etc/NetworkManager/dispatcher.d/99-origin-dns.sh"

// Paths are the files that this package reads and writes. They all lie below one root, so that
// tests and the demo can use a separate tree.
type Paths struct {
	Root string // "" or "/" for the host itself

	ResolvConf         string   // what libc reads
	NetworkManagerConf string   // NetworkManager's own list, always current regardless of dns= and rc-manager=
	NetworkManagerList string   // the same without the local cache of dns=dnsmasq and similar; since 1.14
	ResolvedUplinks    string   // systemd-resolved's uplinks, without its stub
	Upstreams          string   // one server=IP line per upstream, for the daemon and for dnsmasq after a restore
	NodeResolvConf     string   // the original nameservers, for kubelet's resolvConf and dnsRecursiveResolvConf
	Kubeconfig         string   // the daemon's Kubernetes API credentials if it may not read the originals
	DropIn             string   // makes systemd-resolved query this node
	Snippet            string   // keeps NetworkManager from writing resolv.conf while that file names this node
	Original           string   // the resolv.conf that ours replaced: a file or a link
	Record             string   // the last good upstreams and their source
	Facts              string   // the cluster's configuration, for the daemon, which may not read the original file
	Migration          string   // what node-dns migrate needs for its undo; exists until then
	Cache              string   // the daemon's cache; removed by a purge
	Rewrites           string   // history of other programs' overwrites; owned by root, unlike the daemon's directory
	Units              []string // possible paths of the daemon's systemd unit
	Lock               string   // serializes runs
	Request            string   // the daemon's request for a run; exists until a run begins
	WayBack            string   // stamp of a unit start in which systemd ran origin-dns-dispatcher; systemd removes it at a stop
}

// NewPaths returns the default paths below root.
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
		Migration:          at("/var/lib/node-dns/migration.json"),
		Cache:              at("/var/cache/node-dns"),
		Rewrites:           at("/run/origin-dns-dispatcher/rewrites.json"),
		Units:              []string{at("/etc/systemd/system/node-dns.service"), at("/usr/lib/systemd/system/node-dns.service")},
		Lock:               at("/run/origin-dns-dispatcher.lock"),
		Request:            at("/run/node-dns/apply"),
		WayBack:            at("/run/node-dns/way-back"),
	}
}

// inUse reports whether node-dns runs or is restarting: systemd keeps its runtime directory across
// a restart and removes it at a stop (RuntimeDirectoryPreserve=restart). Without a unit there is no
// such sign. If the hook was installed by hand, it must run.
func (p Paths) inUse() bool {
	return mayExist(filepath.Dir(p.Request)) || !p.hasUnit()
}

func (p Paths) hasUnit() bool { return slices.ContainsFunc(p.Units, mayExist) }

// mayExist reports whether path exists, or cannot be checked.
func mayExist(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// host returns the path as the host sees it, without the root, for messages.
func (p Paths) host(path string) string {
	rel, err := filepath.Rel(p.Root, path)
	if err != nil {
		return path
	}
	return "/" + rel
}
